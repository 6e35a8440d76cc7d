"""The short way of a call: one generated function a program."""
