"""What no device needs to know of compiling a graph: fusion, loop nests, schedule, memory plan."""
