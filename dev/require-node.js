// Plain JavaScript that any Node runs: an older one ends at the first line of TypeScript, with an error that names no cure.
import { readFileSync } from "node:fs";

const { engines } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const numbersOf = (version) => version.replace(/^\D*/, "").split(".").map(Number);
const [major, minor = 0] = numbersOf(engines.node);
const [ownMajor, ownMinor] = numbersOf(process.version);

if (ownMajor < major || (ownMajor === major && ownMinor < minor)) {
  console.error(
    `Node ${process.version} does not run Rampart's TypeScript. Type npm ci, which brings the Node of the tests, or install Node ${major}.${minor} or newer.`,
  );
  process.exitCode = 1;
}
