"""Graphs to native code: schedule, memory plan, LLVM. ``README.md`` tells how."""
