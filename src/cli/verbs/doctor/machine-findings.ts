import { type Finding, finding } from "../../../status/finding.ts";

/** The Node of the tests. */
export const testedNode = "24.21.0";

/** Findings about a version of Node, such as `24.11.0`. */
export function nodeFindings(version: string): readonly Finding[] {
  if (!isOlder(version, testedNode)) return [];
  const what = `This is Node ${version}; Rampart is tested with ${testedNode}.`;
  return [finding("node-version", what, `Install Node ${testedNode} or newer`)];
}

/** Whether a version, such as `24.11.0`, comes before another. */
export function isOlder(version: string, other: string): boolean {
  return version.localeCompare(other, "en", { numeric: true }) < 0;
}
