#!/usr/bin/env node
/** The start of the installed program. */
import { setFlagsFromString } from "node:v8";
import { isNodeNewEnough } from "./versions.ts";

/**
 * An agent runs beside each workload and is mostly idle. V8's optimizing compilers would cost it 5 MiB and gain little;
 * `--optimize-for-size` frees the memory of its start, and `--bytecode-old-age` that of unused code, 2 MiB.
 * `--memory-reducer-gc-count=2` is V8's default, which the executable changes for servers.
 */
const flagsOfAgents = [
  "--no-opt",
  "--no-maglev",
  "--no-sparkplug",
  "--optimize-for-size",
  "--bytecode-old-age=1",
  "--memory-reducer-gc-count=2",
];

if (isNodeNewEnough("rampart")) {
  if (process.argv[2] === "agent") for (const flag of flagsOfAgents) setFlagsFromString(flag);
  void import("./main.ts");
}
