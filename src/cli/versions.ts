/** The wrangler that a new project gets: the one of the tests. */
export const wranglerVersion = "4.164.0";

/** Node before 24.5 aborts when it opens a denial, and 24.18 still crashes when strangers close HTTP/2 connections early. */
const oldest = "24.21";

/**
 * Whether this Node can run a program. Otherwise it prints why and sets the exit code 1. This file must parse on every
 * Node.
 */
export function isNodeNewEnough(program: string): boolean {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > 24 || (major === 24 && minor >= 21)) return true;
  console.error(`${program}: needs Node ${oldest} or newer, and this is ${process.version}`);
  process.exitCode = 1;
  return false;
}
