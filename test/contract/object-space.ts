import assert from "node:assert/strict";
import { AuthorityStore } from "../../src/custody/authority-store.ts";
import type { ObjectSpace } from "../../src/node/stores/object-space.ts";

/** A promise of the port `ObjectSpace`, to check against an empty space. */
type SpacePromise = (space: ObjectSpace) => Promise<void>;

const key = `authorities/${"ab".repeat(20)}`;

const valuesIn = async (space: ObjectSpace): Promise<Record<string, string>> =>
  Object.fromEntries([...(await space.list("now"))].map(([name, { value }]) => [name, value]));

/**
 * The promises of the port `ObjectSpace`, by their names. `npm test` checks them in memory and against
 * stand-ins, the interop suites against real services.
 */
export const spacePromises: Readonly<Record<string, SpacePromise>> = {
  "creates an object once": async (space) => {
    assert.equal(await space.write(key, "first"), true);
    assert.equal(await space.write(key, "second"), false);
    assert.deepEqual(await valuesIn(space), { [key]: "first" });
  },
  "creates an object for one of several writers": async (space) => {
    const written = await Promise.all(
      Array.from({ length: 8 }, (_, i) => space.write(key, `${i}`)),
    );
    assert.equal(written.filter(Boolean).length, 1);
    assert.equal((await space.read(key))?.value, `${written.indexOf(true)}`);
  },
  "replaces the version that the writer names, and no other": async (space) => {
    await space.write(key, "first");
    const first = await space.read(key);
    assert.equal(await space.write(key, "second", first?.version), true);
    assert.equal(await space.write(key, "third", first?.version), false);
    assert.deepEqual(await valuesIn(space), { [key]: "second" });
  },
  "replaces a version for one of several writers": async (space) => {
    await space.write(key, "first");
    const first = await space.read(key);
    const written = await Promise.all(
      Array.from({ length: 8 }, (_, i) => space.write(key, `${i}`, first?.version)),
    );
    assert.equal(written.filter(Boolean).length, 1);
    assert.equal((await space.read(key))?.value, `${written.indexOf(true)}`);
  },
  "reads nothing where nothing is": async (space) => {
    assert.equal(await space.read(key), undefined);
    assert.deepEqual(await valuesIn(space), {});
    await space.remove(key);
  },
  "creates again what was removed": async (space) => {
    await space.write(key, "first");
    await space.remove(key);
    assert.equal(await space.read(key), undefined);
    assert.equal(await space.write(key, "second"), true);
    assert.deepEqual(await valuesIn(space), { [key]: "second" });
  },
  "replaces nothing that was removed": async (space) => {
    await space.write(key, "first");
    const first = await space.read(key);
    await space.remove(key);
    assert.equal(await space.write(key, "second", first?.version), false);
    assert.deepEqual(await valuesIn(space), {});
  },
  "keeps keys of signers with dots and dashes apart": async (space) => {
    const keys = ["a.b", "a-b", "a-d", "a", "a.authorities", "b-"].map(
      (name) => `signers/${name}/authorities/${"cd".repeat(20)}`,
    );
    for (const each of keys) assert.equal(await space.write(each, each), true);
    assert.deepEqual(await valuesIn(space), Object.fromEntries(keys.map((each) => [each, each])));
  },
  "keeps the longest value, and every character": async (space) => {
    const value = `\ufeff{"a":"é\u{1f511}\\u0000"}\r\n `;
    const longest =
      value + "x".repeat(AuthorityStore.maximumRecordOctets - Buffer.byteLength(value));
    await space.write(key, longest);
    assert.equal((await space.read(key))?.value, longest);
    assert.deepEqual(await valuesIn(space), { [key]: longest });
  },
  "lists more than a page": async (space) => {
    const keys = Array.from({ length: 40 }, (_, i) => `taints/${i.toString(16).padStart(40, "0")}`);
    await Promise.all(keys.map((each) => space.write(each, each)));
    assert.deepEqual(Object.keys(await valuesIn(space)).toSorted(), keys);
  },
};
