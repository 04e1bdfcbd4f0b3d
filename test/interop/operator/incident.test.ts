import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Mint } from "../../../src/ca/mint.ts";
import { Schedule } from "../../../src/pki/authority/schedule.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { Leaf } from "../../../src/pki/x509/leaf/certificate-signer.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { proved, workload } from "../../testkit/pki/certificates.ts";
import { generateSigner } from "../../testkit/pki/csr.ts";
import type { Answer } from "../../testkit/programs/command-line.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { commandsUnder, variablesOfPage } from "./incident-page.ts";

import { startIncident, tokenOf } from "./incident-scene.ts";

/** What has no room in its column stands indented below its row. */
const rows = ({ stdout }: Answer): string[] =>
  stdout
    .trimEnd()
    .split(/\n(?! )/)
    .slice(1);

/** Exactly two blocks, and so on: the story of a test names every command of its section. */
async function sectionOf<const Lengths extends readonly number[]>(
  heading: string,
  lengths: Lengths,
) {
  const blocks = await commandsUnder(heading);
  expect(blocks.map(({ length }) => length)).toEqual(lengths);
  return (block: number, line: number): string => blocks[block]?.[line] ?? "";
}

test("the page sets the variables that its commands need", async () => {
  expect(await variablesOfPage()).toEqual(["CA", "LOG", "RAMPART_LOG_TOKEN", "STORE"]);
});

test("a stolen token gets nothing more, and its workload goes on", async () => {
  const command = await sectionOf("A stolen token", [3, 3]);
  const incident = await startIncident();
  const JTI = randomUUID();
  const stolen = await tokenOf({ jti: JTI });
  expect([await incident.ask(stolen), await incident.ask(stolen)]).toEqual([200, 200]);
  expect(await incident.ask(await tokenOf())).toBe(200);
  await incident.published(5);
  expect(rows(await incident.type(command(0, 0), { JTI }))).toHaveLength(2);
  const denied = await incident.type(command(0, 1), { JTI });
  expect(denied).toMatchObject({ code: 0, stdout: expect.stringContaining("DENIED = [") });
  await eventually(async () => expect(await incident.ask(stolen)).toBe(403));
  expect(await incident.accepted()).toEqual([true, true, true]);
  expect(await incident.type(command(0, 2), { JTI })).toMatchObject({ code: 0 });
  await eventually(async () => expect(await incident.accepted()).toEqual([false, false, true]));
  expect(await incident.ask(await tokenOf())).toBe(200);
  expect(await incident.accepted()).toEqual([false, false, true, true]);
  await incident.published(6);
  const [denials, revoked, logged] = await Promise.all(
    [0, 1, 2].map((line) => incident.type(command(1, line), { JTI })),
  );
  expect(denials).toMatchObject({ code: 0, stdout: expect.stringContaining(`token/${JTI}`) });
  expect(revoked).toMatchObject({ code: 0, stdout: expect.stringContaining("keyCompromise") });
  expect(logged && rows(logged)).toHaveLength(2);
});

test("a taken node gets nothing more, and other nodes go on", async () => {
  const command = await sectionOf("A taken node", [3, 3]);
  const incident = await startIncident();
  const NODE = "worker-3";
  const on = (name: string) => {
    const serviceaccount = { name: "bar", uid: randomUUID() };
    const node = { name, uid: randomUUID() };
    return tokenOf({ "kubernetes.io": { namespace: "foo", node, serviceaccount } });
  };
  expect([await incident.ask(await on(NODE)), await incident.ask(await on("other"))]).toEqual([
    200, 200,
  ]);
  await incident.published(4);
  await writeFile(join(incident.folder, "authorities.pem"), await incident.bundle());
  expect(rows(await incident.type(command(0, 0), { NODE }))).toHaveLength(1);
  expect(await incident.type(command(0, 1), { NODE })).toMatchObject({ code: 0 });
  await eventually(async () => expect(await incident.ask(await on(NODE))).toBe(403));
  expect(await incident.ask(await on("other"))).toBe(200);
  expect(await incident.type(command(0, 2), { NODE })).toMatchObject({ code: 0 });
  await eventually(async () => expect(await incident.accepted()).toEqual([false, true, true]));
  await incident.published(5);
  expect(rows(await incident.type(command(1, 0), { NODE }))).toHaveLength(1);
  expect(await incident.type(command(1, 1))).toMatchObject({ code: 0, stdout: "" });
  expect(await incident.type(command(1, 2), { NODE })).toMatchObject({ code: 0 });
  await eventually(async () => expect(await incident.ask(await on(NODE))).toBe(200));
});

test("what a thief of the KEK has put into the store shows, and goes", async () => {
  const command = await sectionOf("A stolen KEK", [4, 1, 4]);
  const incident = await startIncident();
  const OLD_KEK = "k1";
  const honest = await incident.signer();
  await writeFile(join(incident.folder, "authorities.pem"), await incident.bundle());
  const { mint } = await incident.asThief();
  await Mint.mintAuthority(mint, Schedule.joining(mint.phaseLengths, new Date()));
  await eventually(async () => {
    expect((await incident.bundle()).split("BEGIN CERTIFICATE")).toHaveLength(3);
  });
  expect(await incident.ask(await tokenOf())).toBe(200);
  await incident.published(4);
  const listed = await incident.type(command(0, 0));
  expect(rows(listed)).toHaveLength(2);
  const [forged = ""] = rows(listed)
    .map((row) => row.split(/ +/)[0] ?? "")
    .filter((id) => !honest.startsWith(id));
  for (const line of [1, 2])
    expect(await incident.type(command(0, line))).toMatchObject({ code: 0 });
  const followed = await incident.type(command(0, 3));
  expect(followed.code).toBe(3);
  expect(
    followed.stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line)),
  ).toEqual([expect.objectContaining({ finding: "authority-appeared" })]);
  const { stdout: newer } = await incident.type(command(1, 0));
  await incident.restart(`${newer.trim()},${incident.kek()}`);
  await eventually(async () => {
    expect(await incident.type(command(2, 0), { OLD_KEK })).toMatchObject({ code: 0 });
  });
  const variables = { FORGED: forged, AUTHORITY: honest };
  for (const line of [1, 2, 3]) {
    expect(await incident.type(command(2, line), variables)).toMatchObject({ code: 0 });
  }
  await incident.restart(newer.trim());
  expect((await incident.bundle()).split("BEGIN CERTIFICATE")).toHaveLength(2);
  expect([honest, forged]).not.toContain(await incident.signer());
  expect(await incident.ask(await tokenOf())).toBe(200);
});

test("a certificate that a stolen authority key has signed is told from others, and refused", async () => {
  const command = await sectionOf("A stolen authority key", [1, 4, 2, 2]);
  const incident = await startIncident();
  expect(await incident.ask(await tokenOf())).toBe(200);
  await incident.published(3);
  const { certificateAuthority } = await incident.asThief();
  const now = wholeSeconds(new Date());
  const { issuer: signer } = await certificateAuthority.issuance.authorities.at(now);
  if (!signer) throw new Error("no authority signs");
  const { der } = await Leaf.issue(signer, {
    spiffeId: workload("bank", "vault"),
    publicKey: SubjectPublicKey.parse(generateSigner("EC-P256").spki),
    validity: { notBefore: now, notAfter: addSeconds(now, 3600) },
    proof: proved,
  });
  await writeFile(join(incident.folder, "seen.pem"), Pem.format("CERTIFICATE", der));
  expect(await incident.type(command(0, 0))).toMatchObject({
    code: 3,
    stderr: expect.stringContaining("that KEY IS STOLEN"),
  });
  const named = await incident.type(command(1, 0));
  const [, AUTHORITY = ""] = /((?:[0-9A-F]{2}:){19}[0-9A-F]{2})/.exec(named.stdout) ?? [];
  const variables = { AUTHORITY: AUTHORITY.replaceAll(":", "").toLowerCase() };
  expect(await incident.signer()).toBe(variables.AUTHORITY);
  expect(await incident.type(command(2, 0))).toMatchObject({ code: 0 });
  expect(await incident.type(command(2, 1))).toMatchObject({ code: 0 });
  expect(await incident.type(command(1, 1))).toMatchObject({ code: 0 });
  expect(await incident.type(command(1, 2), variables)).toMatchObject({ code: 0 });
  expect(await incident.signer()).toBe(variables.AUTHORITY);
  const tainted = await incident.type(command(1, 3), variables);
  expect(tainted).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("TAINTED_AUTHORITIES"),
  });
  await eventually(async () => expect(await incident.signer()).not.toBe(variables.AUTHORITY));
  expect(await incident.ask(await tokenOf())).toBe(200);
  expect(await incident.type(command(2, 0))).toMatchObject({ code: 0 });
  expect((await incident.type(command(2, 1))).code).not.toBe(0);
  await incident.published(5);
  const renewed = await incident.type(command(3, 0));
  expect(renewed.stdout).not.toContain("vault");
  expect(rows(renewed).filter((row) => row.includes("foo/sa/bar"))).toHaveLength(2);
  expect(await incident.type(command(3, 1))).toMatchObject({ code: 0 });
});
