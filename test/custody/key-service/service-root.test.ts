import { type KeyObject, verify, X509Certificate } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Mint } from "../../../src/ca/mint.ts";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import type { PlatformKeys } from "../../../src/config/platform-keys.ts";
import { createServiceRoot } from "../../../src/custody/key-service/operators-keys.ts";
import { createTaint } from "../../../src/pki/authority/new-taint.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { Crl } from "../../../src/pki/x509/crl/crl.ts";
import { CrlEntries } from "../../../src/pki/x509/crl/crl-entries.ts";
import { createMemoryStore, type MemoryStore } from "../../testkit/ca/memory-store.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { clusterLocal } from "../../testkit/ca/sealed-authorities.ts";
import { configurationOf, issuer, randomKek } from "../../testkit/configuration.ts";
import { awsFault, awsRootUris, playAws } from "../../testkit/key-services/aws-kms.ts";
import { azureRootUri, playAzure } from "../../testkit/key-services/azure-key-vault.ts";
import { googleRootUri, playGoogle } from "../../testkit/key-services/google-kms.ts";
import type { PlayedService } from "../../testkit/key-services/key-service.ts";
import { playedCustody } from "../../testkit/key-services/played-custody.ts";
import { playVault, vaultFault, vaultRootUris } from "../../testkit/key-services/vault-transit.ts";
import { runWell } from "../../testkit/programs/child-process.ts";
import { hasOpenssl } from "../../testkit/programs/openssl.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const day = 86_400;
const start = new Date("2026-11-21T11:00:00.250Z");
const custodyOf =
  (service: PlayedService) =>
  (clock: () => Date): PlatformKeys =>
    playedCustody(service, undefined, clock);

/** A mesh in front of its CA, which keeps the KEK and the store through changes of the configuration. */
interface Mesh {
  readonly KEK: string;
  readonly store: MemoryStore;
  now: Date;
}

const newMesh = (): Mesh => ({ KEK: randomKek(), store: createMemoryStore(), now: start });

const rootOf = async (
  service: PlayedService,
  uri: string,
  now = start,
  days = 3650,
): Promise<string> => {
  const { keyServices } = custodyOf(service)(() => now);
  return Pem.format(
    "CERTIFICATE",
    await createServiceRoot(keyServices(uri), clusterLocal, days * day, now),
  );
};

test.each([4096, 4097, 8192])(
  "AWS signs %d octets, of which it takes 4096 and else their digest",
  async (length) => {
    const service = await playAws();
    const [uri = ""] = awsRootUris;
    const { publicKey } = new X509Certificate(await rootOf(service, uri));
    const octets = crypto.getRandomValues(new Uint8Array(length));
    const key = custodyOf(service)(() => start).keyServices(uri);
    const signature = await key.sign(octets, { scalarOctets: 32 } as never);
    expect(verify("sha256", octets, publicKey, signature)).toBe(true);
  },
);

/** The key of a root, certified as the page says: by OpenSSL, without a request that the key has signed. */
async function certifiedElsewhere(selfSigned: string) {
  const folder = await temporaryFolder();
  const file = (name: string): string => join(folder, name);
  const key = new X509Certificate(selfSigned).publicKey.export({ type: "spki", format: "pem" });
  await writeFile(file("key.pem"), key);
  await writeFile(
    file("ca.ext"),
    "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n",
  );
  const openssl = (line: string) => runWell("openssl", [...line.split(" ")], { folder });
  const forCompany = "-nodes -subj /O=company -keyout company.key -out company.pem -days 3650";
  await openssl(`req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 ${forCompany}`);
  const byCompany = "-CA company.pem -CAkey company.key -extfile ca.ext -days 3000 -out root.pem";
  await openssl(`x509 -new -force_pubkey key.pem -subj /O=mesh ${byCompany}`);
  const read = (name: string): Promise<string> => readFile(file(name), "utf8");
  return { root: await read("root.pem"), company: await read("company.pem") };
}

/** The CRL of a root as `openssl` reads it, beside those of every intermediate. */
async function rootCrlOf(ca: RunningCa, root: string, now: Date) {
  await ca.certificateAuthority.issuance.authorities.renew(now);
  const pem = await (await ca.app.request("/crl.pem")).text();
  const crls = pem.match(/-----BEGIN X509 CRL-----[^-]+-----END X509 CRL-----/g) ?? [];
  const { publicKey } = new X509Certificate(root);
  const own = crls
    .map((each) => Crl.parse(octetsOfPem(each)))
    .filter((crl) => isOf(crl, publicKey));
  const [crl] = own;
  if (!crl?.nextUpdate || own.length > 1) throw new Error(`${own.length} CRLs of the root`);
  const { serialNumbers } = CrlEntries.parse(crl.der);
  const revoked = [...serialNumbers].map((each) => each.replace(/^00/, "").toUpperCase());
  return { revoked, nextUpdate: crl.nextUpdate.getTime(), number: crl.number ?? 0n };
}

const octetsOfPem = (pem: string) =>
  new Uint8Array(Buffer.from(pem.replace(/-----[^-]+-----/g, ""), "base64"));

const isOf = ({ signedBytes, signature }: Crl, publicKey: KeyObject): boolean =>
  verify("sha256", signedBytes, publicKey, signature);

const below = (keys: readonly string[], root: string) => ({
  AUTHORITY_ROOT: "upstream",
  UPSTREAM_AUTHORITY: { kind: "key-service", keys, root },
});

async function startIn(
  mesh: Mesh,
  service: PlayedService,
  values: object,
): Promise<RunningCa & { readonly spend: (days: number) => Promise<void> }> {
  const ca = await startCa(
    {
      KEK: mesh.KEK,
      MAX_WORKLOAD_CERT_TTL: "24h",
      AUTHORITY_LIFETIME: "240h",
      PROPAGATION_INTERVAL: "10m",
      ...values,
    },
    {
      store: mesh.store,
      keyCustody: custodyOf(service)(() => mesh.now),
      clock: () => mesh.now,
      hasNoNamesake: true,
    },
  );
  return {
    ...ca,
    spend: async (days) => {
      for (let i = 0; i < days; i++) {
        mesh.now = new Date(mesh.now.getTime() + 1000 * day);
        await ca.certificateAuthority.issuance.authorities.renew(mesh.now);
        await Rotation.rotateAll([ca.mint, ...ca.signerMints.values()], mesh.now);
        await ca.certificateAuthority.issuance.authorities.renew(mesh.now);
        await requireVerified(ca, mesh.now);
      }
    },
  };
}

/** What signs now has a path to a root that was in the bundle already, as OpenSSL sees it. */
async function requireVerified(ca: RunningCa, now: Date): Promise<void> {
  const { issuer, trustBundle } = await ca.certificateAuthority.issuance.authorities.at(now);
  if (!issuer) throw new Error(`nothing signs at ${now.toISOString()}`);
  const { certificate, intermediates, roots } = issuer.authority;
  const path = [certificate.der, ...intermediates, ...roots].map((der) => new X509Certificate(der));
  for (const [i, child] of path.entries()) {
    const parent = path[i + 1] ?? child;
    const isOwn = child.fingerprint256 === parent.fingerprint256;
    if (!isOwn || i === path.length - 1) expect(child.verify(parent.publicKey)).toBe(true);
  }
  const known = trustBundle.roots.map((der) => new X509Certificate(der).fingerprint256);
  expect(known).toContain(path.at(-1)?.fingerprint256);
}

const signerIn = async (ca: RunningCa, now: Date): Promise<X509Certificate | undefined> => {
  const { issuer } = await ca.certificateAuthority.issuance.authorities.at(now);
  return issuer && new X509Certificate(issuer.authority.certificate.der);
};

describe.each([
  ["AWS KMS", awsRootUris, playAws, "Sign", awsFault("DisabledException"), "has disabled the key"],
  [
    "transit",
    vaultRootUris,
    playVault,
    "sign",
    vaultFault(403, "permission denied"),
    "grant update on transit/sign/root/sha2-256",
  ],
] as const)("a root in %s", (_, [first = "", second = ""], play, sign, fault, sentence) => {
  test("signs each intermediate once, through three rotations, and no leaf", async () => {
    const service = await play();
    const mesh = newMesh();
    const root = await rootOf(service, first);
    service.asked.length = 0;
    const ca = await startIn(mesh, service, below([first], root));
    await ca.found();
    await ca.spend(24);
    const stored = (await mesh.store.load()).length;
    expect(stored).toBeGreaterThan(1);
    expect(service.asked.every((action) => action === sign)).toBe(true);
    expect(service.asked.length).toBeGreaterThanOrEqual(4);
    const signer = await signerIn(ca, mesh.now);
    expect(signer?.issuer).toBe("O=cluster.local");
    expect(signer?.verify(new X509Certificate(root).publicKey)).toBe(true);
    const { trustBundle } = await ca.certificateAuthority.issuance.authorities.at(mesh.now);
    expect(trustBundle.roots.map((der) => new X509Certificate(der).toString())).toEqual([
      new X509Certificate(root).toString(),
    ]);
  });

  test("whose key does not sign leaves the current intermediate at work, and says why", async () => {
    const service = await play();
    const mesh = newMesh();
    const ca = await startIn(mesh, service, below([first], await rootOf(service, first)));
    await ca.found();
    await ca.spend(2);
    service.fault = fault;
    mesh.now = new Date(mesh.now.getTime() + 3 * day * 1000);
    await expect(ca.spend(1)).rejects.toThrow();
    await requireVerified(ca, mesh.now);
    expect(JSON.stringify(ca.log.operations)).toContain(sentence);
    service.fault = undefined;
    await ca.spend(10);
  });

  test("that is signed by another key than its certificate has is not believed", async () => {
    const service = await play();
    const root = await rootOf(service, first);
    const ca = await startIn(newMesh(), service, below([second], root));
    await expect(ca.found()).rejects.toThrow(
      "signed with another key than the one of the root's certificate",
    );
    expect(await ca.store.load()).toEqual([]);
  });

  test("the next key signs where the first one does not", async () => {
    const service = await play();
    const ca = await startIn(
      newMesh(),
      service,
      below([second, first], await rootOf(service, first)),
    );
    await ca.found();
    expect(await ca.store.load()).toHaveLength(1);
  });

  test("signs its CRL for months, which names a tainted intermediate", async () => {
    const service = await play();
    const mesh = newMesh();
    const root = await rootOf(service, first);
    const ca = await startIn(mesh, service, { ...below([first], root), CRL: "on" });
    await ca.found();
    await ca.spend(1);
    const before = await rootCrlOf(ca, root, mesh.now);
    expect(before.revoked).toEqual([]);
    expect(before.nextUpdate - mesh.now.getTime()).toBeGreaterThan(180 * day * 1000);
    service.asked.length = 0;
    await ca.spend(3);
    expect(service.asked).toEqual([]);
    const { issuer, store } = await ca.certificateAuthority.issuance.authorities.at(mesh.now);
    if (!issuer) throw new Error("nothing signs");
    const { id, certificate } = issuer.authority;
    const lengths = ca.mint.phaseLengths;
    await Mint.recordTaint(ca.mint, createTaint(store, id, "immediately", lengths, mesh.now));
    await Rotation.rotateAll([ca.mint], mesh.now);
    // Its successor is published one propagation interval later.
    mesh.now = new Date(mesh.now.getTime() + 3_600_000);
    const after = await rootCrlOf(ca, root, mesh.now);
    expect(after.revoked).toEqual([new X509Certificate(certificate.der).serialNumber]);
    expect(after.number).toBeGreaterThan(before.number);
    service.fault = fault;
    mesh.now = new Date(mesh.now.getTime() + 60 * day * 1000);
    await expect(Rotation.rotateAll([ca.mint], mesh.now)).rejects.toThrow();
    await ca.certificateAuthority.issuance.authorities.renew(mesh.now);
    expect(JSON.stringify(ca.log.operations)).toContain('"crl-fault"');
    service.fault = undefined;
    await Rotation.rotateAll([ca.mint], mesh.now);
    expect(ca.log.operations.filter(({ event }) => event === "root-crl-signed")).toHaveLength(3);
  });
});

describe("a root in a key service, whichever it is,", () => {
  const [first = "", second = ""] = awsRootUris;

  test("revokes no tainted intermediate that its bundle still has, and none of another root", async () => {
    const service = await playAws();
    const mesh = newMesh();
    const root = await rootOf(service, first);
    const taintSigner = async ({ mint, certificateAuthority }: RunningCa) => {
      const { issuer, store } = await certificateAuthority.issuance.authorities.at(mesh.now);
      if (!issuer) throw new Error("nothing signs");
      const { id, certificate } = issuer.authority;
      const taint = createTaint(store, id, "with-last-leaf", mint.phaseLengths, mesh.now);
      await Mint.recordTaint(mint, taint);
      await Rotation.rotateAll([mint], mesh.now);
      return new X509Certificate(certificate.der).serialNumber;
    };
    await (await startIn(mesh, service, { CRL: "on" })).found();
    const ca = await startIn(mesh, service, { ...below([first], root), CRL: "on" });
    await ca.spend(2);
    await taintSigner(ca);
    await ca.spend(2);
    expect((await rootCrlOf(ca, root, mesh.now)).revoked).toEqual([]);
    const serialNumber = await taintSigner(ca);
    expect((await rootCrlOf(ca, root, mesh.now)).revoked).toEqual([]);
    await ca.spend(2);
    expect((await rootCrlOf(ca, root, mesh.now)).revoked).toEqual([serialNumber]);
  });

  test.skipIf(!hasOpenssl)(
    "may be certified by a company's CA, whose root the mesh then trusts",
    async () => {
      const service = await playAws();
      const { root, company } = await certifiedElsewhere(await rootOf(service, first));
      // OpenSSL's own clock has made them.
      const mesh = { ...newMesh(), now: new Date() };
      const values = { ...below([first], root + company), CRL: "on" };
      const INCEPTION_DATE = mesh.now.toISOString().slice(0, 10);
      const ca = await startIn(mesh, service, { ...values, INCEPTION_DATE });
      await Rotation.rotateAll([ca.mint], mesh.now);
      await ca.spend(20);
      const last = await signerIn(ca, mesh.now);
      expect(last?.verify(new X509Certificate(root).publicKey)).toBe(true);
      const { issuer, trustBundle } = await ca.certificateAuthority.issuance.authorities.at(
        mesh.now,
      );
      const above = issuer?.authority.intermediates.at(-1) ?? new Uint8Array();
      expect([Pem.format("CERTIFICATE", above), trustBundle.pem]).toEqual([root, company]);
      const { ready, reasons } = await (await ca.app.request("/readyz")).json();
      expect([ready, reasons]).toEqual([true, [expect.stringContaining("no CRL of the root")]]);
      // Nobody has a use for one of this key without the company's.
      expect(ca.log.operations.map(({ event }) => event)).not.toContain("root-crl-signed");
    },
  );

  test("renews itself before it ends, and is published before anything relies on that", async () => {
    const service = await playAws();
    const mesh = newMesh();
    const root = await rootOf(service, first, start, 60);
    const ca = await startIn(mesh, service, { ...below([first], root), CRL: "on" });
    await ca.found();
    await ca.spend(75);
    const last = await signerIn(ca, mesh.now);
    expect(last?.verify(new X509Certificate(root).publicKey)).toBe(true);
    const { trustBundle } = await ca.certificateAuthority.issuance.authorities.at(mesh.now);
    expect(trustBundle.roots.map((der) => new X509Certificate(der).validTo)).not.toContain(
      new X509Certificate(root).validTo,
    );
    expect(new Set(trustBundle.roots.map((der) => new X509Certificate(der).validTo)).size).toBe(1);
    await rootCrlOf(
      ca,
      Pem.format("CERTIFICATE", trustBundle.roots[0] ?? new Uint8Array()),
      mesh.now,
    );
  });

  test("may be that of a named signer alone", async () => {
    const service = await playAws();
    const mesh = newMesh();
    const root = await rootOf(service, first);
    const { UPSTREAM_AUTHORITY: upstream_authority } = below([first], root);
    const signer = { name: "payments", inception_date: "2026-11-21", upstream_authority };
    const SIGNERS = [{ ...signer, callers: [{ issuer }] }];
    const ca = await startIn(mesh, service, { SIGNERS, CRL: "on" });
    await Rotation.rotateAll([ca.mint, ...ca.signerMints.values()], mesh.now);
    await ca.spend(15);
    const own = await signerIn(ca, mesh.now);
    expect(own?.issuer).toBe(own?.subject);
    const payments = ca.certificateAuthority.issuance.signers.get("payments");
    const { issuer: signing, trustBundle } = (await payments?.authorities.at(mesh.now)) ?? {};
    const certificate = new X509Certificate(signing?.authority.certificate.der ?? "");
    expect(certificate.verify(new X509Certificate(root).publicKey)).toBe(true);
    expect(trustBundle?.pem).toContain(root.trimEnd());
    expect((await rootCrlOf(ca, root, mesh.now)).revoked).toEqual([]);
  });

  test("takes the place of a self-signed root, of another key, and gives it back", async () => {
    const service = await playAws();
    const mesh = newMesh();
    const own = { AUTHORITY_ROOT: "self" };
    const before = await startIn(mesh, service, own);
    await before.found();
    await before.spend(1);
    for (const values of [
      below([first], await rootOf(service, first)),
      below([second], await rootOf(service, second)),
      own,
    ])
      await (await startIn(mesh, service, values)).spend(20);
    const last = await signerIn(await startIn(mesh, service, own), mesh.now);
    expect(last?.issuer).toBe(last?.subject);
  });
});

test.each<[string, () => Promise<PlayedService>, string | undefined]>([
  ["EC-P384 in AWS KMS", () => playAws("EC-P384"), awsRootUris[0]],
  ["RSA-2048 in AWS KMS", () => playAws("RSA-2048"), awsRootUris[0]],
  ["EC-P384 in transit", () => playVault("EC-P384"), vaultRootUris[0]],
  ["RSA-2048 in transit", () => playVault("RSA-2048"), vaultRootUris[0]],
  ["EC-P256 in Google Cloud KMS", playGoogle, googleRootUri],
  ["EC-P256 in Azure Key Vault", playAzure, azureRootUri],
])("a root of %s signs an intermediate", async (_, play, uri = "") => {
  const service = await play();
  const ca = await startIn(newMesh(), service, below([uri], await rootOf(service, uri)));
  await ca.found();
  await ca.spend(1);
});

test.each([
  [{ kind: "key-service" }, "UPSTREAM_AUTHORITY.keys: is required"],
  [{ kind: "key-service", keys: ["awskms:///x"] }, "UPSTREAM_AUTHORITY.root: is required"],
  [{ kind: "vault" }, "UPSTREAM_AUTHORITY.url: is required"],
  [
    { kind: "vault", url: "https://v.test", keys: ["awskms:///x"] },
    "UPSTREAM_AUTHORITY.keys: is not for the kind vault",
  ],
])("a table %j is refused", (UPSTREAM_AUTHORITY, sentence) => {
  const values = { AUTHORITY_ROOT: "upstream", UPSTREAM_AUTHORITY };
  expect(() => configurationOf(values)).toThrow(sentence);
});
