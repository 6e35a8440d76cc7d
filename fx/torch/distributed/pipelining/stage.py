"""``torch.distributed.pipelining.stage``: a module as one stage."""

from fx.distributed.pipelining.splitting import build_stage as build_stage
from fx.distributed.pipelining.stage import PipelineStage as PipelineStage
