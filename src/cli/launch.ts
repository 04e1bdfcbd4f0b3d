#!/usr/bin/env node
/** The start of the installed program. */
import { setFlagsFromString } from "node:v8";
import { isNodeNewEnough } from "./versions.ts";

/**
 * An agent stands beside each workload and mostly rests. V8's optimizing compilers would cost it 5 MiB, and do little
 * for what it does; `--optimize-for-size` gives back what its start took, and `--bytecode-old-age` its code, 2 MiB.
 * `--memory-reducer-gc-count` is V8's own, which the executable changes for servers.
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
