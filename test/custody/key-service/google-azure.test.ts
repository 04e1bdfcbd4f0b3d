import { X509Certificate } from "node:crypto";
import { describe, expect, test } from "vitest";
import { WrappedKek } from "../../../src/custody/key-service/kek-lease.ts";
import { createServiceRoot, wrapKek } from "../../../src/custody/key-service/operators-keys.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { clusterLocal } from "../../testkit/ca/sealed-authorities.ts";
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
import { playedCustody } from "../../testkit/key-services/played-custody.ts";

const domain = "cluster.local";
const octets = crypto.getRandomValues(new Uint8Array(32));

describe.each([
  ["Google", googleUri, googleRootUri, playGoogle],
  ["Azure", azureUri, azureRootUri, playAzure],
] as const)("%s", (_, uri, rootUri, play) => {
  test("signs the intermediates below its root, which OpenSSL verifies", async () => {
    const service = await play();
    const keyCustody = playedCustody(service);
    const now = new Date("2026-11-21T12:00:00.250Z");
    const key = keyCustody.keyServices(rootUri);
    const root = Pem.format("CERTIFICATE", await createServiceRoot(key, clusterLocal, 1e8, now));
    const UPSTREAM_AUTHORITY = { kind: "key-service", keys: [rootUri], root };
    const ca = await startCa({ AUTHORITY_ROOT: "upstream", UPSTREAM_AUTHORITY }, { keyCustody });
    await ca.found();
    ca.pass(1);
    const { issuer } = await ca.certificateAuthority.issuance.authorities.at(ca.now());
    const signer = new X509Certificate(issuer?.authority.certificate.der ?? "");
    expect(signer.verify(new X509Certificate(root).publicKey)).toBe(true);
  });

  test("is not asked without a credential that can be one", async () => {
    const service = await play();
    const given = { KEY_CREDENTIAL_GCPKMS: "{}", KEY_CREDENTIAL_AZUREKMS: '{"tenant":"t/../x"}' };
    const { keyServices } = playedCustody(service, given);
    await expect(wrapKek({ id: "k1", octets }, uri, domain, keyServices)).rejects.toThrow(
      "cannot be asked: its credential",
    );
    expect(service.asked).toEqual([]);
  });
});

test.each([
  [
    googleUri,
    { KEY_CREDENTIAL_GCPKMS: { ...JSON.parse(googleCredential), token_uri: "http://sts.test/" } },
  ],
  [
    azureUri,
    { KEY_CREDENTIAL_AZUREKMS: { ...JSON.parse(azureCredential), authority: "http://sts.test" } },
  ],
])("a grant for %s is not asked for over plain HTTP", async (uri, credential) => {
  const service = await playAzure();
  const given = Object.entries(credential).map(([name, json]) => [name, JSON.stringify(json)]);
  const { keyServices } = playedCustody(service, Object.fromEntries(given));
  await expect(wrapKek({ id: "k1", octets }, uri, domain, keyServices)).rejects.toThrow(
    "its credential must name an https URL",
  );
});

test("the CRC of Google's reference", () => {
  expect(crc32cOf(new TextEncoder().encode("123456789"))).toBe("3808858755");
});

test("Managed HSM gets a token of its own", async () => {
  const service = await playAzure();
  const scopes: unknown[] = [];
  const fetch: PlayedService["fetch"] = (url, init) => {
    const scope = new URLSearchParams(`${init.body}`).get("scope");
    if (scope !== null) scopes.push(scope);
    return service.fetch(url, init);
  };
  const uri = azureUri.replace("vault.azure.net", "managedhsm.azure.net");
  const { call } = playedCustody({ fetch }).keyServices(uri);
  await call("").catch(() => {});
  expect(scopes).toEqual(["https://managedhsm.azure.net/.default"]);
});

test("Azure takes a federated token", async () => {
  const service = await playAzure();
  const { password: _, ...rest } = JSON.parse(azureCredential);
  const { keyServices } = playedCustody(service, {
    KEY_CREDENTIAL_AZUREKMS: JSON.stringify({ ...rest, assertion: "jwt.of.workload" }),
  });
  const kek = await wrapKek({ id: "k1", octets }, azureUri, domain, keyServices);
  expect(await WrappedKek.open(kek, domain, keyServices)).toEqual(octets);
});
