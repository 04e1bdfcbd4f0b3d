import { lchown, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, onTestFinished, test, vi } from "vitest";
import { parseConfiguration } from "../../../src/agent/configuration.ts";
import { JwtFiles } from "../../../src/agent/secrets/jwt-files.ts";
import {
  createJwtAuthority,
  type JwtAuthority,
  subject,
} from "../../testkit/agent/jwt-authority.ts";
import { createTokenKey } from "../../testkit/callers/tokens.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const nobody = { uid: 65_534, gid: 65_534 };
const isRoot = process.getuid?.() === 0;

function keep(
  authority: JwtAuthority,
  path: string,
  other = path,
  owner?: typeof nobody,
): JwtFiles {
  const paths = new Set([path, other]);
  const files = [...paths].map((each) => ({ path: each, audience: "sts.amazonaws.com", owner }));
  const clock = (): Date => authority.now;
  const kept = new JwtFiles({ ...authority, files, spiffeId: subject, clock, random: () => 0 });
  onTestFinished(() => {
    authority.jwtSvids.end();
    return kept.close();
  });
  return kept;
}

test("a file has a token of its audience alone, without a line's end, for its owner alone", async () => {
  const authority = await createJwtAuthority();
  const path = join(await temporaryFolder(), "aws", "token");
  const kept = keep(authority, path, path, isRoot ? nobody : undefined);
  await authority.log.until("files-written");
  const token = await readFile(path, "utf8");
  const held = await authority.jwtSvids.obtain(subject, ["sts.amazonaws.com"]);
  expect(token).toBe(held.token);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  if (isRoot) expect(await stat(path)).toMatchObject(nobody);
  expect(kept.faults).toEqual([]);
});

test("the token of a withdrawn key is replaced at once", async () => {
  const authority = await createJwtAuthority();
  const path = join(await temporaryFolder(), "token");
  keep(authority, path);
  await authority.log.until("files-written");
  const before = await readFile(path, "utf8");
  authority.key = await createTokenKey("ES256", "key-2");
  authority.publish(authority.key);
  await authority.log.until("files-written", 2);
  expect(await readFile(path, "utf8")).not.toBe(before);
});

test("a refusal and a path that takes no file are reasons", async () => {
  const authority = await createJwtAuthority();
  authority.refusal = new ConnectError("caller may have no such token", Code.PermissionDenied);
  const refused = keep(authority, join(await temporaryFolder(), "token"));
  await authority.log.until("files-unwritten");
  expect(refused.faults).toEqual([
    expect.stringMatching(/token has no new token for sts\.amazonaws\.com: .*no such token/),
  ]);
  const other = await createJwtAuthority();
  const file = join(await temporaryFolder(), "file");
  await writeFile(file, "");
  const blocked = keep(other, join(file, "token"));
  await other.log.until("files-unwritten");
  expect(blocked.faults).toHaveLength(1);
});

test("each file has a reason of its own, which ends with its next token", async () => {
  const authority = await createJwtAuthority();
  const folder = await temporaryFolder();
  const [one, two] = [join(folder, "one"), join(folder, "two")];
  authority.refusal = new ConnectError("caller may have no such token", Code.PermissionDenied);
  const kept = keep(authority, one, two);
  await authority.log.until("files-unwritten", 2);
  expect(kept.faults.map((fault) => fault.split(" ", 1)[0]).toSorted()).toEqual([one, two]);
  authority.refusal = undefined;
  authority.now = new Date(authority.now.getTime() + 60_000);
  authority.publish(authority.key);
  authority.publish(await createTokenKey("ES256", "key-2"), authority.key);
  await authority.log.until("files-written", 2);
  await eventually(() => expect(kept.faults).toEqual([]));
});

test("a token that cannot be renewed in time is asked for again after a pause", async () => {
  const authority = await createJwtAuthority();
  const held = await authority.jwtSvids.obtain(subject, ["sts.amazonaws.com"]);
  const asked = vi.spyOn(authority.jwtSvids, "obtain").mockImplementation(async () => {
    await setImmediate();
    return { ...held, renewsAt: authority.now };
  });
  const kept = keep(authority, join(await temporaryFolder(), "token"));
  await authority.log.until("files-written");
  for (let i = 0; i < 10; i++) await setImmediate();
  expect(asked).toHaveBeenCalledOnce();
  authority.publish(authority.key, await createTokenKey("ES256", "key-2"));
  for (let i = 0; i < 10; i++) await setImmediate();
  await kept.close();
  expect(asked).toHaveBeenCalledTimes(2);
  expect(authority.log.operations.filter(({ event }) => event === "files-written")).toHaveLength(1);
});

test.runIf(isRoot)("a link to the folder is followed, except another user's", async () => {
  const authority = await createJwtAuthority();
  const [target, link] = [await temporaryFolder(), join(await temporaryFolder(), "aws")];
  await symlink(target, link);
  await lchown(link, 65_534, 65_534);
  const kept = keep(authority, join(link, "token"));
  await authority.log.until("files-unwritten");
  expect(kept.faults).toEqual([expect.stringContaining(`${link} is a link of another user`)]);
  expect(await readdir(target)).toEqual([]);
  await lchown(link, 0, 0);
  const own = await createJwtAuthority();
  keep(own, join(link, "token"));
  await own.log.until("files-written");
  expect(await readdir(target)).toEqual(["token"]);
});

const sidecar = { POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };

test("RAMPART_JWT_FILES lists files with their audiences", () => {
  const google =
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q";
  const { jwtFiles } = parseConfiguration({
    ...sidecar,
    RAMPART_JWT_FILES: `/run/aws=sts.amazonaws.com, /run/gcp=${google},/run/x=a=b`,
    RAMPART_OUTPUT_OWNER: "1000:1000",
  });
  const owner = { uid: 1000, gid: 1000 };
  expect(jwtFiles).toEqual([
    { path: "/run/aws", audience: "sts.amazonaws.com", owner },
    { path: "/run/gcp", audience: google, owner },
    { path: "/run/x", audience: "a=b", owner },
  ]);
  expect(parseConfiguration(sidecar).jwtFiles).toEqual([]);
});

test.each([
  ["an audience without a file", "sts.amazonaws.com"],
  ["a file without an audience", "/run/aws="],
  ["no path", "=sts.amazonaws.com"],
  ["a space in an audience", "/run/aws=a b"],
  ["a file twice", "/run/aws=a,/run/aws=b"],
  ["nine files", Array.from({ length: 9 }, (_, i) => `/run/${i}=a`).join()],
])("%s is refused", (_, text) => {
  expect(() => parseConfiguration({ ...sidecar, RAMPART_JWT_FILES: text })).toThrow(
    /RAMPART_JWT_FILES: must be 1 to 8 of <file>=<audience>/,
  );
});

test("a node and a serving certificate have no such files", () => {
  const files = { RAMPART_JWT_FILES: "/run/aws=a" };
  for (const other of [{ RAMPART_WORKLOADS: "/feed" }, { RAMPART_SERVING_CERTS: "/tls" }]) {
    expect(() => parseConfiguration({ ...sidecar, ...files, ...other })).toThrow(
      "RAMPART_JWT_FILES",
    );
  }
});
