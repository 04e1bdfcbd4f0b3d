import { describe, expect, test } from "vitest";
import { ConfiguredKeks } from "../../../src/config/keks.ts";
import { WrappedKek } from "../../../src/custody/key-service/kek-lease.ts";
import { wrapKek } from "../../../src/custody/key-service/operators-keys.ts";
import { configurationOf } from "../../testkit/configuration.ts";
import {
  awsAliasUri,
  awsCredential,
  awsFault,
  awsUri,
  playAws,
} from "../../testkit/key-services/aws-kms.ts";
import {
  azureCredential,
  azureUri,
  playAzure,
} from "../../testkit/key-services/azure-key-vault.ts";
import {
  crc32cOf,
  googleCredential,
  googleUri,
  playGoogle,
} from "../../testkit/key-services/google-kms.ts";
import type { PlayedService } from "../../testkit/key-services/key-service.ts";
import { playedCustody } from "../../testkit/key-services/played-custody.ts";
import { playVault, vaultFault, vaultUri } from "../../testkit/key-services/vault-transit.ts";

const domain = "mesh.test";
const octets = crypto.getRandomValues(new Uint8Array(32));
const keyServicesOf = (
  service: Pick<PlayedService, "fetch">,
  given?: Readonly<Record<string, string | (() => string)>>,
) => playedCustody(service, given).keyServices;

describe.each([
  ["AWS KMS", awsUri, playAws, awsFault("DisabledException")],
  ["transit", vaultUri, playVault, vaultFault(400, "encryption key not found")],
  ["Google", googleUri, playGoogle, undefined],
  ["Azure", azureUri, playAzure, undefined],
] as const)("%s", (_, uri, play, fault) => {
  const wrapped = async () => {
    const service = await play();
    const services = keyServicesOf(service);
    const kek = await wrapKek({ id: "k1", octets }, uri, domain, services);
    return { service, services, kek };
  };

  test("opens what it wrapped, with one grant for all calls, in the form that KEK has", async () => {
    const { service, services, kek } = await wrapped();
    expect(configurationOf({ KEK: ConfiguredKeks.format(kek) }).keks).toEqual([kek]);
    expect(await WrappedKek.open(kek, domain, services)).toEqual(octets);
    expect(service.asked.filter((action) => action === "token").length).toBeLessThan(2);
  });

  test.each([
    ["another trust domain", "other.test", "k1"],
    ["another id", domain, "k2"],
  ])("opens nothing for %s", async (_, trustDomain, id) => {
    const { services, kek } = await wrapped();
    await expect(WrappedKek.open({ ...kek, id }, trustDomain, services)).rejects.toThrow(
      /answered without plaintext|opened another KEK/i,
    );
  });

  test.skipIf(!fault)("the next key opens where the first one does not", async () => {
    const { service, services, kek } = await wrapped();

    const [first] = kek.wrappings;
    if (!first) throw new Error("no wrapping");
    const lost = { uri: uri.replace("rampart", "lost"), ciphertext: new Uint8Array(40) };
    service.fault = fault;
    const both = { ...kek, wrappings: [lost, first] };
    for (const each of both.wrappings)
      await expect(WrappedKek.open(both, domain, services)).rejects.toThrow(each.uri);
    service.fault = undefined;
    expect(await WrappedKek.open(both, domain, services)).toEqual(octets);
  });
});

test("an alias of AWS leads to a key of its own account alone", async () => {
  const service = await playAws();
  const wrap = () => wrapKek({ id: "k1", octets }, awsAliasUri, domain, keyServicesOf(service));
  expect((await wrap()).wrappings).toMatchObject([{ uri: awsAliasUri }]);
  service.forge = (answer) => ({
    ...answer,
    KeyId: `${answer["KeyId"]}`.replace("111122223333", "444455556666"),
  });
  await expect(wrap()).rejects.toThrow("answered for another key");
});

test.each<[string, string, string?]>([
  ["hashivault://localhost:8200/transit/keys/k", "http://localhost:8200/"],
  ["hashivault://localhost:8200/transit/keys/k?tls", "https://localhost:8200/"],
  ["hashivault://vault.test/transit/keys/k", "https://vault.test/"],
  ["hashivault://vault.test/transit/keys/k?namespace=team%2Fa", "https://vault.test/", "team/a"],
])("%s is asked at %s, in namespace %s", async (uri, origin, namespace) => {
  const asked: unknown[] = [];
  const fetch: PlayedService["fetch"] = async (url, { headers }) => {
    asked.push(url, new Headers(headers).get("x-vault-namespace"));
    return Response.json({});
  };
  const services = keyServicesOf({ ...(await playVault()), fetch });
  await expect(services(uri).call("decrypt/*", {})).resolves.toEqual({});
  expect(asked).toEqual([`${origin}v1/transit/decrypt/k`, namespace ?? null]);
});

test.each([
  ["for each call without an end", {}, 2],
  ["until they end or are refused", { Expiration: new Date(Date.now() + 3_600_000) }, 1],
])("keys of AWS are used %s", async (_, end, reads) => {
  const service = await playAws();
  const [AccessKeyId, SecretAccessKey] = awsCredential.split(":");
  let read = 0;
  const text = (): string => {
    read++;
    return JSON.stringify({ AccessKeyId, SecretAccessKey, ...end });
  };
  const keyServices = keyServicesOf(service, { KEY_CREDENTIAL_AWSKMS: text });
  const kek = await wrapKek({ id: "k1", octets }, awsUri, domain, keyServices);
  expect(read).toBe(reads);
  service.fault = awsFault("ExpiredTokenException");
  await expect(WrappedKek.open(kek, domain, keyServices)).rejects.toThrow("which has expired");
  expect(read).toBe(2 * reads);
});

test("a login of Vault is asked for once, until its token is refused", async () => {
  const service = await playVault();
  const login = JSON.stringify({ role: "rampart", jwt: "jwt.of.pod" });
  const services = keyServicesOf(service, { KEY_CREDENTIAL_HASHIVAULT: login });
  const kek = await wrapKek({ id: "k1", octets }, vaultUri, domain, services);
  await WrappedKek.open(kek, domain, services);
  expect(service.asked.splice(0)).toEqual(["login", "encrypt", "decrypt", "decrypt"]);
  service.fault = vaultFault(403, "permission denied");
  await expect(WrappedKek.open(kek, domain, services)).rejects.toThrow("refuses the credential");
  expect(service.asked.splice(0)).toEqual(["decrypt", "login"]);
  service.fault = undefined;
  service.forge = ({ auth, ...others }) => ({
    ...others,
    ...(auth !== undefined && { auth: { ...Object(auth), lease_duration: 60 } }),
  });
  const anew = keyServicesOf(service, { KEY_CREDENTIAL_HASHIVAULT: login });
  for (let i = 0; i < 2; i++) await WrappedKek.open(kek, domain, anew);
  expect(service.asked).toEqual(["login", "decrypt", "login", "decrypt"]);
});

test.each([
  ["https://kms.test/key"],
  ["awskms:///alias/mine"],
  ["awskms://http://x/arn:aws:kms:eu-central-1:111122223333:key/1"],
  ["hashivault:///transit/keys/rampart"],
  ["hashivault://vault.test/transit/keys/../../sys"],
  ["hashivault://vault.test/transit/keys/rampart?version=latest"],
  ["constructor://vault.test/transit/keys/rampart"],
])("%s is the URI of no key", async (uri) => {
  const service = await playAws();
  expect(() => keyServicesOf(service)(uri)).toThrow("the URI of a key must have a form");
});

test.each([
  [awsUri, {}, "KEY_CREDENTIAL_AWSKMS is required"],
  [awsUri, { KEY_CREDENTIAL_AWSKMS: "AKIA" }, "its credential has no AccessKeyId"],
  [vaultUri, { KEY_CREDENTIAL_HASHIVAULT: "hvs.a\nhvs.b" }, "one line of visible ASCII"],
])("of a key %s, a credential that cannot be: %j", async (uri, given, sentence) => {
  const service = await playAws();
  const wrapping = wrapKek({ id: "k1", octets }, uri, domain, keyServicesOf(service, given));
  await expect(wrapping).rejects.toThrow(sentence);
});

test.each([
  [googleUri, { KEY_CREDENTIAL_GCPKMS: "{}" }],
  [azureUri, { KEY_CREDENTIAL_AZUREKMS: '{"tenant":"t/../x"}' }],
])("no grant is asked for, for %s, with a credential that cannot be one", async (uri, given) => {
  const service = await playAzure();
  await expect(
    wrapKek({ id: "k1", octets }, uri, domain, keyServicesOf(service, given)),
  ).rejects.toThrow("cannot be asked: its credential");
  expect(service.asked).toEqual([]);
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
  const keyServices = keyServicesOf(service, Object.fromEntries(given));
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
  const { call } = keyServicesOf({ fetch })(uri);
  await call("").catch(() => {});
  expect(scopes).toEqual(["https://managedhsm.azure.net/.default"]);
});

test("Azure takes a federated token", async () => {
  const service = await playAzure();
  const { password: _, ...rest } = JSON.parse(azureCredential);
  const keyServices = keyServicesOf(service, {
    KEY_CREDENTIAL_AZUREKMS: JSON.stringify({ ...rest, assertion: "jwt.of.workload" }),
  });
  const kek = await wrapKek({ id: "k1", octets }, azureUri, domain, keyServices);
  expect(await WrappedKek.open(kek, domain, keyServices)).toEqual(octets);
});
