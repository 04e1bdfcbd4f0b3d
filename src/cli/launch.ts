#!/usr/bin/env node
/** The start of the installed program. Every Node can read this file, and an old one gets a sentence. */
const oldest = 24;

const [major = ""] = process.versions.node.split(".");
if (Number(major) >= oldest) {
  await import("./main.ts");
} else {
  console.error(`rampart: needs Node ${oldest} or newer, and this is ${process.version}`);
  process.exitCode = 1;
}

export {};
