import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mintAuthority } from "../../src/ca/mint.ts";
import { compose } from "../../src/compose/composition.ts";
import { parseConfiguration } from "../../src/config/configuration.ts";
import { openFileStore } from "../../src/node/files/file-store.ts";
import { joiningSchedule } from "../../src/pki/authority/schedule.ts";
import { toPem } from "../../src/pki/encoding/pem.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto-provider.ts";
import { issueLeaf } from "../../src/pki/x509/leaf/issuer.ts";
import { parseSubjectPublicKey } from "../../src/pki/x509/subject-public-key.ts";
import { addSeconds, wholeSeconds } from "../../src/pki/x509/validity.ts";
import { readerToken } from "../contract/log/log-values.ts";
import { issuerTables } from "../contract/service-under-test.ts";
import { randomKek } from "../testkit/ca/running-ca.ts";
import {
  type Claims,
  createTokenKey,
  jwksOf,
  mintAccountToken,
} from "../testkit/callers/tokens.ts";
import { createWorkload } from "../testkit/callers/workload.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";
import { proved, workload } from "../testkit/pki/certificates.ts";
import { generateSigner } from "../testkit/pki/csr.ts";
import type { Answer } from "../testkit/programs/command-line.ts";
import {
  commandsUnder,
  installRampart,
  runLine,
  variablesOfPage,
} from "../testkit/programs/incident-page.ts";
import { serveToml, startServeProcess } from "../testkit/programs/serve-process.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";
import { eventually } from "../testkit/time/eventually.ts";

const tokenKey = await createTokenKey("ES256", "key-1");
const { issuer } = issuerTables.cluster;
const { csrPem: csr } = await createWorkload();

const values = {
  PLAINTEXT_LISTEN: "127.0.0.1:0",
  PROPAGATION_INTERVAL: "0s",
  ISSUERS: [{ issuer, jwks: jwksOf(tokenKey) }],
  LOG_ORIGIN: "log.example.com/2026",
  LOG_INTERVAL: "1s",
};

const tokenOf = (changes: Claims = {}): Promise<string> =>
  mintAccountToken(tokenKey, issuer, "foo:bar", new Date(), changes);

/** `rampart serve` with a log, and an operator at a terminal with docs/incident.md. */
async function startIncident() {
  const folder = await temporaryFolder();
  await installRampart(folder);
  const config = join(folder, "rampart.toml");
  const store = join(folder, "store");
  await writeFile(config, serveToml(store, values));
  let kek = randomKek("k1");
  const start = () => startServeProcess(config, kek, { LOG_READERS: readerToken });
  let server = await start();
  const url = () => `http://127.0.0.1:${server.monitoringPort}`;
  const ask = async (token: string): Promise<number> => {
    const path = "istio.v1.auth.IstioCertificateService/CreateCertificate";
    const response = await fetch(`http://127.0.0.1:${server.plaintextPort}/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify({ csr }),
    });
    return response.status;
  };
  return {
    folder,
    ask,
    /** Waits until the log has published this many entries of all that were issued. */
    published: (size: number) =>
      eventually(async () => {
        const headers = { authorization: `Bearer ${readerToken}` };
        const text = await (await fetch(`${url()}/log/0/checkpoint`, { headers })).text();
        expect(Number(text.split("\n")[1])).toBeGreaterThanOrEqual(size);
      }),
    bundle: async () => (await fetch(`${url()}/bundle.pem`)).text(),
    signer: async () => {
      const { authority } = (await (await fetch(`${url()}/readyz`)).json()) as {
        authority: string;
      };
      return authority;
    },
    type: (line: string, variables: Readonly<Record<string, string>> = {}): Promise<Answer> => {
      const page = { CA: url(), LOG: `${url()}/log/0`, STORE: "-c rampart.toml" };
      const environment = { ...page, RAMPART_LOG_TOKEN: readerToken, KEK: kek, ...variables };
      return runLine(line, { folder, environment });
    },
    restart: async (entries: string) => {
      server.child.kill("SIGTERM");
      await once(server.child, "exit");
      kek = entries;
      server = await start();
    },
    /** What somebody does who has the KEK and the store. */
    asThief: async () => {
      const configuration = parseConfiguration({
        ISSUERS: values.ISSUERS,
        PROPAGATION_INTERVAL: "0s",
        KEK: kek,
      });
      return compose(configuration, {
        store: await openFileStore(store),
        cryptoProvider: webCryptoProvider,
        log: createEventRecorder(),
        clock: () => new Date(),
      });
    },
    kek: () => kek,
  };
}

const rows = ({ stdout }: Answer): string[] => stdout.trimEnd().split("\n").slice(1);

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
  const command = await sectionOf("A stolen token", [2, 2]);
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
  expect(await incident.ask(await tokenOf())).toBe(200);
  await incident.published(6);
  expect(await incident.type(command(1, 0))).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`token/${JTI}`),
  });
  expect(rows(await incident.type(command(1, 1), { JTI }))).toHaveLength(2);
});

test("a taken node gets nothing more, and other nodes go on", async () => {
  const command = await sectionOf("A taken node", [2, 3]);
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
  await mintAuthority(mint, joiningSchedule(mint.phaseLengths, new Date()));
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
  expect(followed.code).toBe(5);
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
  const { der } = await issueLeaf(signer, {
    spiffeId: workload("bank", "vault"),
    publicKey: parseSubjectPublicKey(generateSigner("EC-P256").spki),
    validity: { notBefore: now, notAfter: addSeconds(now, 3600) },
    proof: proved,
  });
  await writeFile(join(incident.folder, "seen.pem"), toPem("CERTIFICATE", der));
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
