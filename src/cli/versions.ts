/** The wrangler that a new project gets: the one of the tests. */
export const wranglerVersion = "4.155.0";

const oldest = 24;

/** Whether this Node can run a program. Every Node can read this file, and an old one says a sentence. */
export function isNodeNewEnough(program: string): boolean {
  const [major = ""] = process.versions.node.split(".");
  if (Number(major) >= oldest) return true;
  console.error(`${program}: needs Node ${oldest} or newer, and this is ${process.version}`);
  process.exitCode = 1;
  return false;
}
