import { X509Certificate } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { ServerRoots } from "../../../src/node/distribute/server-roots.ts";
import { UpstreamBundle } from "../../../src/node/distribute/upstream-bundle.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { startRotatingCa } from "../../testkit/network/rotating-ca.ts";
import { createTlsIdentity, type TlsIdentity } from "../../testkit/network/tls-identity.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const [a, b, c] = await Promise.all([
  createTestAuthority("a"),
  createTestAuthority("b"),
  createTestAuthority("c"),
]);

type Authority = typeof a;

const bundle = (sequence: number, ...authorities: Authority[]): string =>
  JSON.stringify({
    spiffe_sequence: sequence,
    keys: authorities.map(({ certificate }) => ({
      use: "x509-svid",
      x5c: [certificate.raw.toString("base64")],
    })),
  });

/** Follows a CA that answers with each of these in turn, and then always with the last. */
async function follow(...answers: string[]) {
  let count = 0;
  const { origin } = await startLoopbackServer((_, response) => {
    const answer = answers[Math.min(count++, answers.length - 1)];
    response.writeHead(answer === "" ? 503 : 200).end(answer);
  });
  const log = createEventRecorder();
  const source = { upstream: origin, upstreamRootsFile: undefined, cacheFolder: undefined };
  const followed = await UpstreamBundle.follow(source, {
    log,
    clock: () => new Date(),
    // Between two requests nothing is waited for but the event loop.
    pause: () => new Promise(setImmediate),
  });
  onTestFinished(followed.end);
  const requested = (times: number) => eventually(() => expect(count).toBeGreaterThan(times));
  const { asked, current } = followed;
  return { asked, current, log, requested };
}

test("the first bundle is current once the CA has answered", async () => {
  const { asked, current, log } = await follow(bundle(1, a, b));
  await asked;
  expect(current()).toEqual({ sequence: 1, pem: `${a.certificate}${b.certificate}` });
  expect(log.operations).toMatchObject([{ event: "bundle-changed", level: "info", sequence: 1 }]);
});

test("a newer bundle replaces it, and only another content is logged", async () => {
  const { current, log, requested } = await follow(bundle(1, a), bundle(2, a), bundle(3, b));
  await requested(3);
  expect(current()).toEqual({ sequence: 3, pem: String(b.certificate) });
  expect(log.operations.map(({ sequence }) => sequence)).toEqual([1, 3]);
});

test("one of a lower number with the same content counts as the CA's word, and the higher number stays", async () => {
  const { current, log, requested } = await follow(bundle(2, a), bundle(1, a), bundle(1, b));
  await requested(3);
  expect(current()).toEqual({ sequence: 2, pem: String(a.certificate) });
  const details = log.operations.slice(1).map(({ detail }) => detail);
  expect(new Set(details)).toEqual(new Set(["the CA publishes bundle 1, older than 2"]));
});

test.each([
  ["is older", bundle(1, b), "the CA publishes bundle 1, older than 2"],
  ["is empty", bundle(3), "the CA publishes a trust bundle without a root"],
  [
    "is damaged",
    "{}",
    "the bundle endpoint did not answer a SPIFFE bundle: keys must be array, not undefined",
  ],
  [
    "has more keys than a mesh",
    JSON.stringify({ keys: Array.from({ length: 101 }, () => ({})) }),
    "the bundle endpoint did not answer a SPIFFE bundle: keys must have at most 100 items",
  ],
  ["is not there", "", "the bundle endpoint answered with status 503"],
])("a bundle that %s does not replace it, and is logged", async (_, answer, detail) => {
  const { current, log, requested } = await follow(bundle(2, a), answer);
  await requested(2);
  expect(current()).toEqual({ sequence: 2, pem: String(a.certificate) });
  expect(log.operations).toContainEqual(
    expect.objectContaining({ event: "bundle-not-fetched", level: "warning", detail }),
  );
});

test("roots that cannot be read are refused at the start, and logged later", async () => {
  const rootsFile = join(await temporaryFolder(), "roots.pem");
  const log = createEventRecorder();
  const start = () =>
    UpstreamBundle.follow(
      { upstream: "http://127.0.0.1:1", upstreamRootsFile: rootsFile, cacheFolder: undefined },
      { log, clock: () => new Date(), pause: () => new Promise(setImmediate) },
    );
  await expect(start()).rejects.toThrow(`${rootsFile} does not exist`);
  await writeFile(rootsFile, a.pem);
  const { end } = await start();
  onTestFinished(end);
  await rm(rootsFile);
  await eventually(() =>
    expect(log.operations).toContainEqual(
      expect.objectContaining({ detail: `${rootsFile} does not exist` }),
    ),
  );
});

/** A CA, and followers of it by a file of roots that nobody updates. */
async function followByFile(first: TlsIdentity, held?: Readonly<Record<string, string>>) {
  const ca = await startRotatingCa(first, held);
  const folder = await temporaryFolder();
  const [upstreamRootsFile, cacheFolder] = [join(folder, "roots.pem"), join(folder, "cache")];
  await writeFile(upstreamRootsFile, first.ca);
  const source = { upstream: `https://127.0.0.1:${ca.port}`, upstreamRootsFile, cacheFolder };
  /** @param paused Called between two requests. */
  const start = async (paused = (): void => {}) => {
    const log = createEventRecorder();
    const thefts: (() => void)[] = [];
    const pause = async () => {
      paused();
      thefts.shift()?.();
      await new Promise<void>(setImmediate);
    };
    const { current, serverRoots, end } = await UpstreamBundle.follow(source, {
      log,
      clock: () => new Date(),
      pause,
    });
    onTestFinished(end);
    const reads = (sequence: number) =>
      eventually(() => expect(current()?.sequence).toBe(sequence));
    const logs = (detail: string) =>
      eventually(() =>
        expect(log.operations).toContainEqual(
          expect.objectContaining({ detail: expect.stringContaining(detail) }),
        ),
      );
    // Not while a request is under way: it would be answered over a connection that the CA before has.
    const steal = (theft: () => void) => void thefts.push(theft);
    return { current, serverRoots, end, reads, logs, steal };
  };
  return { ca, start, cacheFolder };
}

const refused = "showed a certificate that is not accepted";

test("the CA is known by the roots of its bundle, which count in place of those that its file has", async () => {
  const [old, next] = [await createTlsIdentity(true), await createTlsIdentity(true)];
  const { ca, start } = await followByFile(old);
  const { current, serverRoots, reads, logs, steal } = await start();
  await reads(0);
  ca.publish(old, [old, next]);
  await reads(1);
  ca.publish(next, [next]);
  await reads(2);
  expect(serverRoots.pem).toBe(String(new X509Certificate(next.ca)));
  // A thief of the withdrawn key, which the file still has.
  steal(() => ca.publish(old, [old]));
  await logs(refused);
  expect(current()?.sequence).toBe(2);
});

test("a CA that changes all its roots between two answers is followed by the connection of the last one, and no other", async () => {
  const [first, ...others] = await Promise.all(
    Array.from({ length: 4 }, () => createTlsIdentity(true)),
  );
  if (!first) throw new Error("there is no first one");
  const { ca, start } = await followByFile(first, {
    etag: '"1"',
    "preference-applied": "wait=1",
  });
  let known: number | undefined;
  const followed = await start(() => {
    if (followed.current()?.sequence === known) return;
    known = followed.current()?.sequence;
    const next = others.shift();
    if (next) ca.publish(next, [next]);
  });
  await followed.reads(3);
  const thief = await createTlsIdentity(true);
  followed.steal(() => {
    ca.publish(thief, [thief]);
    ca.cut();
  });
  await followed.logs(refused);
  expect(followed.current()?.sequence).toBe(3);
});

test("a damaged or unwritable cache is logged, and the file of roots counts", async () => {
  const old = await createTlsIdentity(true);
  const { start, cacheFolder } = await followByFile(old);
  await writeFile(cacheFolder, "");
  const { reads, logs, serverRoots } = await start();
  await reads(0);
  await logs("cannot be read: ENOTDIR");
  await logs("EEXIST");
  expect(serverRoots.pem).toBe(String(new X509Certificate(old.ca)));
});

const [first, second, third] = [a, b, c].map(({ certificate }) => certificate) as [
  X509Certificate,
  X509Certificate,
  X509Certificate,
];

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
