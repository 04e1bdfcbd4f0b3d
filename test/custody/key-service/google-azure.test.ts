import { X509Certificate } from "node:crypto";
import { describe, expect, test } from "vitest";
import { formatWrappedKek } from "../../../src/config/keks.ts";
import { openWrapped, wrapKek } from "../../../src/custody/key-service/kek-lease.ts";
import { openKeyCustody } from "../../../src/custody/key-service/key-custody.ts";
import { createServiceRoot } from "../../../src/custody/key-service/service-root.ts";
import { toPem } from "../../../src/pki/encoding/pem.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { clusterLocal } from "../../testkit/ca/sealed-authorities.ts";
import { configurationOf } from "../../testkit/configuration.ts";
import {
  azureCredential,
  azureRootUri,
  azureUri,
  playAzure,
} from "../../testkit/key-services/azure-key-vault.ts";
import {
  crc32cOf,
  googleCredential,
  googleRootUri,
  googleUri,
  playGoogle,
} from "../../testkit/key-services/google-kms.ts";
import type { PlayedService } from "../../testkit/key-services/key-service.ts";

const domain = "cluster.local";
const octets = crypto.getRandomValues(new Uint8Array(32));
const usual = { KEY_CREDENTIAL_GCPKMS: googleCredential, KEY_CREDENTIAL_AZUREKMS: azureCredential };

const custodyOf = ({ fetch }: PlayedService, given: object = usual) =>
  openKeyCustody(
    {
      clusterCredentials: new Map(Object.entries(given).map(([name, text]) => [name, () => text])),
    },
    { fetch, clock: () => new Date() },
  );

describe.each([
  ["Google", googleUri, googleRootUri, playGoogle],
  ["Azure", azureUri, azureRootUri, playAzure],
] as const)("%s", (_, uri, rootUri, play) => {
  test("opens what it wrapped, with one grant for all calls, in the form that KEK has", async () => {
    const service = await play();
    const { keyServices } = custodyOf(service);
    const kek = await wrapKek({ id: "k1", octets }, uri, domain, keyServices);
    expect(configurationOf({ KEK: formatWrappedKek(kek) }).keks).toEqual([kek]);
    expect(await openWrapped(kek, domain, keyServices)).toEqual(octets);
    expect(service.asked.filter((action) => action === "token")).toHaveLength(1);
  });

  test("opens nothing for another trust domain or id", async () => {
    const service = await play();
    const { keyServices } = custodyOf(service);
    const kek = await wrapKek({ id: "k1", octets }, uri, domain, keyServices);
    for (const [trustDomain, id] of [
      ["other.test", "k1"],
      [domain, "k2"],
    ] as const)
      await expect(openWrapped({ ...kek, id }, trustDomain, keyServices)).rejects.toThrow(
        /answered without plaintext|opened another KEK/,
      );
  });

  test("signs the intermediates below its root, which OpenSSL verifies", async () => {
    const service = await play();
    const keyCustody = custodyOf(service);
    const now = new Date("2026-11-21T12:00:00.250Z");
    const key = keyCustody.keyServices(rootUri);
    const root = toPem("CERTIFICATE", await createServiceRoot(key, clusterLocal, 1e8, now));
    const UPSTREAM_AUTHORITY = { kind: "key-service", keys: [rootUri], root };
    const ca = await startCa({ AUTHORITY_ROOT: "upstream", UPSTREAM_AUTHORITY }, { keyCustody });
    await ca.found();
    ca.pass(1);
    const { issuer } = await ca.certificateAuthority.issuance.authorities.at(ca.now());
    const signer = new X509Certificate(issuer?.authority.certificate.der ?? "");
    expect(signer.verify(new X509Certificate(root).publicKey)).toBe(true);
  });

  test.each([
    [{ status: 401, body: {} }, /refuses the credential/],
    [{ status: 403, body: {} }, /grant (?:cloudkms.cryptoKeyVersions.useToDecrypt|unwrapkey on)/],
    [{ status: 404, body: {} }, /has no such key/],
    [{ status: 429, body: {} }, /throttles/],
    [{ status: 500, body: [] }, /refused \(status 500\)/],
    [
      {
        status: 403,
        body: { error: { code: "Forbidden", innererror: { code: "KeyDisabled" } } },
      },
      /has disabled the key|grant cloudkms/,
    ],
  ])("says of %j what it means", async (fault, sentence) => {
    const service = await play();
    const { keyServices } = custodyOf(service);
    const kek = await wrapKek({ id: "k1", octets }, uri, domain, keyServices);
    service.fault = fault;
    const said = await openWrapped(kek, domain, keyServices).then(String, String);
    expect(said).toMatch(sentence);
    expect(said).not.toMatch(/secret|token|PRIVATE/);
  });

  test("is not asked without a credential that can be one", async () => {
    const service = await play();
    const given = { KEY_CREDENTIAL_GCPKMS: "{}", KEY_CREDENTIAL_AZUREKMS: '{"tenant":"t/../x"}' };
    const { keyServices } = custodyOf(service, given);
    await expect(wrapKek({ id: "k1", octets }, uri, domain, keyServices)).rejects.toThrow(
      "cannot be asked: its credential",
    );
    expect(service.asked).toEqual([]);
  });
});

test("the CRC of Google's reference", () => {
  expect(crc32cOf(new TextEncoder().encode("123456789"))).toBe("3808858755");
});

test.each([
  ["a CRC of another text", { plaintextCrc32c: "1" }, "whose CRC does not verify"],
  ["no CRC", { plaintextCrc32c: undefined }, "whose CRC does not verify"],
])("Google's answer with %s is not believed", async (_, change, sentence) => {
  const service = await playGoogle();
  const { keyServices } = custodyOf(service);
  const kek = await wrapKek({ id: "k1", octets }, googleUri, domain, keyServices);
  service.forge = (body) => ({ ...body, ...change });
  await expect(openWrapped(kek, domain, keyServices)).rejects.toThrow(sentence);
});

test.each([
  ["another key", { name: "projects/p2" }, "answered for another key"],
  ["a digest that was not verified", { verifiedDigestCrc32c: undefined }, "a CRC does not verify"],
])("Google's signature for %s is not believed", async (_, change, sentence) => {
  const service = await playGoogle();
  const { keyServices } = custodyOf(service);
  const key = keyServices(googleRootUri);
  await key.publicKey();
  service.forge = (body) => ("signature" in body ? { ...body, ...change } : body);
  await expect(createServiceRoot(key, clusterLocal, 1e8, new Date())).rejects.toThrow(sentence);
});

test("Azure's answer for another version is not believed, and a federated token is taken", async () => {
  const service = await playAzure();
  const { password: _, ...rest } = JSON.parse(azureCredential);
  const { keyServices } = custodyOf(service, {
    KEY_CREDENTIAL_AZUREKMS: JSON.stringify({ ...rest, assertion: "jwt.of.workload" }),
  });
  const kek = await wrapKek({ id: "k1", octets }, azureUri, domain, keyServices);
  service.forge = (body) => ({ ...body, kid: `${body["kid"]}0` });
  await expect(openWrapped(kek, domain, keyServices)).rejects.toThrow("answered for another key");
});
