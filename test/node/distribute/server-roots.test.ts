import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { ServerRoots } from "../../../src/node/distribute/server-roots.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const [first, second, third] = await Promise.all(
  Array.from({ length: 3 }, async () => new X509Certificate((await createTestAuthority()).pem)),
);
if (!first || !second || !third) throw new Error("no roots");

let folder: string;

beforeEach(async () => {
  folder = await temporaryFolder();
});

/** Knows a CA by a file with one root. */
async function knowing(upstream: string, root: X509Certificate, former?: ServerRoots) {
  const upstreamRootsFile = join(folder, "file.pem");
  await writeFile(upstreamRootsFile, root.toString());
  const place = { upstream, upstreamRootsFile, cacheFolder: join(folder, "cache") };
  const roots = new ServerRoots(place, createEventRecorder(), former);
  return { roots, pem: await roots.read() };
}

test.each([
  ["at once", true],
  ["after a restart", false],
])("the root of a CA counts when a program comes back from another CA, %s", async (_, isSame) => {
  const { roots } = await knowing("https://a.test", first);
  roots.learn([first]);
  const other = await knowing("https://b.test", second, roots);
  other.roots.learn([second]);
  await Promise.all([roots.kept(), other.roots.kept()]);
  const back = await knowing("https://a.test", first, isSame ? other.roots : undefined);
  expect(back.pem).toBe(first.toString());
});

test("the roots of the file are those that it has now, as long as the CA has published none", async () => {
  const { roots, pem } = await knowing("https://a.test", first);
  expect(pem).toBe(first.toString());
  await writeFile(join(folder, "file.pem"), second.toString());
  expect(await roots.read()).toBe(second.toString());
});

test("a root that a CA has withdrawn counts no more, in any file, wherever the CA is", async () => {
  const { roots } = await knowing("https://a.test", first);
  roots.learn([first]);
  roots.learn([second]);
  await roots.kept();
  for (const upstream of ["https://a.test", "https://b.test"]) {
    expect((await knowing(upstream, first, roots)).pem).toBe(second.toString());
    expect((await knowing(upstream, first)).pem).toBe(second.toString());
  }
  const moved = await knowing("https://b.test", first, roots);
  moved.roots.learn([second, third]);
  expect(moved.roots.pem).toBe(second.toString() + third.toString());
  await moved.roots.kept();
});
