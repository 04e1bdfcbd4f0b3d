import { expect, test } from "vitest";
import { CurrentCredentials } from "../../../src/node/serve/current-credentials.ts";

test("a credential that is in use follows each change of its place", async () => {
  const credentials = new CurrentCredentials();
  const steady = credentials.use(new Map([["A", () => "first"]])).get("A");
  expect(await steady?.()).toBe("first");
  expect(credentials.use(new Map([["A", async () => "second"]])).get("A")).toBe(steady);
  expect(await steady?.()).toBe("second");
});

test("a credential that was taken away asks nobody any more", async () => {
  const credentials = new CurrentCredentials();
  const steady = credentials.use(new Map([["A", () => "first"]])).get("A");
  expect(credentials.use(new Map()).size).toBe(0);
  await expect(steady?.()).rejects.toThrow("A is not configured any more");
});
