# ruff: noqa
"""Boxes that overlap are suppressed, hard and softly; a Kalman filter follows a path."""

import numpy as np
import torch


def iou(a, b):
    lt = torch.max(a[:, None, :2], b[None, :, :2])
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    area = lambda x: (x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1])
    return inter / (area(a)[:, None] + area(b)[None] - inter)


def nms(boxes, scores, threshold):
    order = scores.argsort(descending=True)
    overlap = iou(boxes[order], boxes[order]).triu_(diagonal=1)
    suppressed = torch.zeros(len(boxes), dtype=torch.bool)
    for i in range(len(boxes)):
        if not suppressed[i]:
            suppressed[overlap[i] > threshold] = True
    return order[~suppressed]


def soft_nms(boxes, scores):
    for i in range(len(boxes)):
        j = int(scores[i:].argmax()) + i
        scores[[i, j]] = scores[[j, i]]
        boxes[[i, j]] = boxes[[j, i]]
        if i + 1 < len(boxes):
            scores[i + 1 :] *= torch.exp(-(iou(boxes[i : i + 1], boxes[i + 1 :])[0] ** 2) / 0.5)


def inverse(S):
    out = torch.empty_like(S)
    out[0, 0], out[1, 1] = S[1, 1], S[0, 0]
    out[0, 1], out[1, 0] = -S[0, 1], -S[1, 0]
    return out / (S[0, 0] * S[1, 1] - S[0, 1] * S[1, 0])


F = torch.eye(4)
F[0, 2] = F[1, 3] = 0.1
H = torch.zeros(2, 4)
H[0, 0] = H[1, 1] = 1
Q, R = torch.eye(4) * 0.01, 0.1 * torch.eye(2)


def step(x, P, z):
    x = F.to(x) @ x
    P = F.to(x) @ P @ F.T.to(x) + Q.to(x)
    y = z.unsqueeze(1) - H.to(x) @ x
    K = P @ H.T.to(x) @ inverse(H.to(x) @ P @ H.t().to(x) + R.to(x))
    return x + K @ y, (torch.eye(4) - K @ H.to(x)) @ P, y.norm()


def main(argv=None):
    rng = np.random.RandomState(4)
    corners = torch.from_numpy(rng.rand(20, 2)) * 60
    boxes = torch.cat([corners, corners + torch.from_numpy(rng.rand(20, 2)) * 30 + 5], 1)
    scores = torch.from_numpy(rng.rand(20))
    kept = nms(boxes, scores, 0.3)
    before = boxes.clone()
    soft_nms(boxes, scores)
    x, P, n = torch.zeros(4, 1), torch.eye(4) * 10, 12
    estimates, innovation = torch.empty(n, 4), torch.zeros(n)
    covariances = torch.empty(n, 4, 4)
    path = torch.from_numpy(np.cumsum(rng.randn(n, 2), 0))
    for k in range(n):
        x, P, innovation[k] = step(x, P, path[k])
        estimates[k] = x.squeeze()
        covariances[k].copy_(P)
    smooth = estimates.clone()
    for k in range(n - 2, -1, -1):
        smooth[k] += 0.5 * (smooth[k + 1] - F.to(x) @ estimates[k])
    print(kept.tolist())
    return {
        "kept": kept,
        "boxes": boxes,
        "scores": scores,
        "before": before,
        "estimates": estimates,
        "covariances": covariances,
        "innovation": innovation,
        "smooth": smooth,
    }


if __name__ == "__main__":
    main()
