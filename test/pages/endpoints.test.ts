import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string): string => readFileSync(`${root}/${path}`, "utf8");

/** The paths that the routes of every program name, without what varies in them. */
function routedPaths(): string[] {
  const files = globSync("src/{transport,node,worker,agent/status}/**/*.ts", { cwd: root });
  const routes = files.flatMap((file) => [
    ...read(file).matchAll(/\b(?:app\.(?:get|all|post)\(|case |path === )"(\/[\w./-]*)/g),
  ]);
  return [...new Set(routes.map(([, path = ""]) => path))];
}

test("the page of endpoints names every path that a program answers", () => {
  const page = read("docs/reference/endpoints.md");
  const paths = routedPaths();
  expect(paths.length).toBeGreaterThan(12);
  expect(paths.filter((path) => !page.includes(`\`${path}`))).toEqual([]);
});
