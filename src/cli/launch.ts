#!/usr/bin/env node
/** The start of the installed program. Every Node can read this file, and an old one gets a sentence. */
import { setFlagsFromString } from "node:v8";

const oldest = 24;

/**
 * An agent stands beside each workload and mostly rests. V8's optimizing compilers would cost it 5 MiB, and do little
 * for what it does; `--optimize-for-size` gives back what its start took.
 */
const flagsOfAgents = ["--no-opt", "--no-maglev", "--no-sparkplug", "--optimize-for-size"];

const [major = ""] = process.versions.node.split(".");
if (Number(major) >= oldest) {
  if (process.argv[2] === "agent") for (const flag of flagsOfAgents) setFlagsFromString(flag);
  void import("./main.ts");
} else {
  console.error(`rampart: needs Node ${oldest} or newer, and this is ${process.version}`);
  process.exitCode = 1;
}
