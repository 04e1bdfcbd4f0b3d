import { expect, test } from "vitest";
import { ConfiguredKeks } from "../../src/config/keks.ts";
import type { PlatformKeys } from "../../src/config/platform-keys.ts";
import { AuthorityRecord } from "../../src/custody/authority-record.ts";
import type { KekRing } from "../../src/custody/kek.ts";
import { RecordError } from "../../src/custody/record-fields.ts";
import { sharePromises } from "../../src/node/limits/promise-sharing.ts";
import { NewAuthority } from "../../src/pki/authority/new-authority.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { configurationOf, issuer, randomKek } from "../testkit/configuration.ts";
import { clusterLocal, tenDays } from "../testkit/pki/certificates.ts";

const [first, second] = [randomKek(), randomKek("k2")];
const means = {
  clock: () => new Date(),
  log: { operation: () => {} },
  shareWork: sharePromises,
};
const keksOf = async (KEK: string, signer?: string) => {
  const configuration = configurationOf({ KEK });
  const signers = signer === undefined ? [] : [{ name: signer }];
  return (await ConfiguredKeks.hold({ ...configuration, signers }, means)).ring(signer);
};

const created = await NewAuthority.create(clusterLocal, "EC-P256", tenDays);
const seal = (keks: KekRing) => AuthorityRecord.seal(created, { trustDomain: clusterLocal, keks });
const open = async (record: Awaited<ReturnType<typeof seal>>, keks: KekRing) =>
  AuthorityRecord.open(record, { trustDomain: clusterLocal, keks }, webCryptoProvider);

test("the first KEK of a configuration seals, and every one opens", async () => {
  const ring = await keksOf(`${second},${first}`);
  expect(ring.map(({ id }) => id)).toEqual(["k2", "k1"]);
  const record = await seal(await keksOf(first));
  expect((await open(record, ring)).authority.id).toBe(created.authority.id);
  expect(JSON.parse((await seal(ring)).value).kek).toBe("k2");
});

test("the KEK of a named signer opens its own records, and another opens no record of a named signer", async () => {
  const record = await seal(await keksOf(first, "team-a"));
  const { authority } = await open(record, await keksOf(first, "team-a"));
  expect(authority.id).toBe(created.authority.id);
  for (const signer of [undefined, "team-b"])
    await expect(open(record, await keksOf(first, signer))).rejects.toThrow(RecordError);
});

test("no other KEK opens a record, not even one with the same id", async () => {
  const record = await seal(await keksOf(first));
  await expect(open(record, await keksOf(second))).rejects.toThrow(RecordError);
  await expect(open(record, await keksOf(randomKek()))).rejects.toThrow(RecordError);
});

test("a lease is for all signers and as long as configured, and every key of it must be one", async () => {
  const entry = (id: string, uri: string) => `${id}:${uri}#AA.${"A".repeat(43)}`;
  const KEK = [entry("a", "x:///1"), entry("a", "x:///2"), entry("b", "x:///3")].join();
  const SIGNERS = [{ name: "team-a", callers: [{ issuer }] }];
  const asked: string[] = [];
  const keyServices = (uri: string): never => asked.push(uri) as never;
  const keyCustody = { keyServices, lease: (parts: object) => parts } as unknown as PlatformKeys;
  const configuration = configurationOf({ KEK, KEK_LEASE: "2m", SIGNERS });
  const leased = await ConfiguredKeks.hold(configuration, { ...means, keyCustody });
  expect(leased).toMatchObject({ leaseSeconds: 120, signers: ["team-a"] });
  expect(asked).toEqual(["x:///1", "x:///2", "x:///3"]);
});

test("a configuration without a KEK is a defect, not a CA without seals", async () => {
  await expect(ConfiguredKeks.hold({ ...configurationOf({}), keks: [] }, means)).rejects.toThrow(
    "without a KEK",
  );
});
