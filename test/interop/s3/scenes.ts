import assert from "node:assert/strict";
import type { Fetch } from "../../../src/foundation/fetch.ts";
import { BucketSpace } from "../../../src/node/stores/bucket-space.ts";
import type { ObjectSpace } from "../../../src/node/stores/object-space.ts";
import { NodeFetch } from "../../../src/program/http/http-client.ts";
import { keepPromises } from "../store-promises.ts";
import { bucket, credential, type Gateway } from "./gateway.ts";

export interface Scene {
  readonly gateway: Gateway;
  readonly folder: string;
}

const clock = (): Date => new Date();

function spaceOf(
  { gateway: { place, ca } }: Scene,
  changes: Partial<Gateway["place"]> = {},
  fetch: Fetch = NodeFetch.trusting(ca),
  recentSeconds = 0,
): BucketSpace {
  return new BucketSpace({ ...place, ...changes }, fetch, clock, { recentSeconds });
}

async function emptied(scene: Scene): Promise<ObjectSpace> {
  const space = spaceOf(scene);
  for (const each of (await space.list("now")).keys()) await space.remove(each);
  return spaceOf(scene, {}, NodeFetch.trusting(scene.gateway.ca), 15);
}

/** A real service may let two of many writers pass where a stand-in never does. */
async function decidesBetweenWriters(scene: Scene): Promise<string> {
  const rounds = 20;
  const spaces = Array.from({ length: scene.gateway.writers }, () => spaceOf(scene));
  // The service lists an object that another proof removes at that moment without its version.
  for (const space of spaces) await space.prove();
  const [first] = spaces;
  for (let i = 0; i < rounds; i++) {
    const at = `roots/${i}`;
    const created = await Promise.all(spaces.map((space, n) => space.write(at, `${n}`)));
    assert.equal(created.filter(Boolean).length, 1, `round ${i}: ${created}`);
    const before = await first?.read(at);
    assert.equal(before?.value, `${created.indexOf(true)}`);
    const replaced = await Promise.all(
      spaces.map((space, n) => space.write(at, `next ${n}`, before?.version)),
    );
    assert.equal(replaced.filter(Boolean).length, 1, `round ${i}: ${replaced}`);
    assert.equal((await first?.read(at))?.value, `next ${replaced.indexOf(true)}`);
  }
  return `${rounds} rounds of ${spaces.length} writers`;
}

async function saysWhy(scene: Scene): Promise<string> {
  const { url } = scene.gateway.place;
  const late = new BucketSpace(
    scene.gateway.place,
    NodeFetch.trusting(scene.gateway.ca),
    () => new Date(Date.now() - 3_600_000),
  );
  const secretAccessKey = "another-secret";
  const cases: readonly [ObjectSpace, RegExp][] = [
    [late, /set the clock of this machine/],
    [
      spaceOf(scene, { credentials: async () => ({ ...credential, secretAccessKey }) }),
      /refuses the credential for GET \(status 403, SignatureDoesNotMatch\)/,
    ],
    [
      spaceOf(scene, { url: url.replace(bucket, "no-such"), bucket: "no-such" }),
      /no bucket no-such/,
    ],
    [spaceOf(scene, { region: "eu-central-1" }), /S3_REGION/],
    [
      spaceOf(scene, {}, NodeFetch.trusting(undefined)),
      /showed a certificate that is not accepted \(.*SELF_SIGNED/,
    ],
  ];
  for (const [space, sentence] of cases) await assert.rejects(space.list("now"), sentence);
  return `${cases.length} refusals, each with its sentence`;
}

/** The sentences about a service quote its codes, which differ. */
export const sceneOfRefusals = ["refusals", saysWhy] as const;

export const scenes: readonly (readonly [string, (scene: Scene) => Promise<string>])[] = [
  ["every promise of the store", (scene) => keepPromises(() => emptied(scene))],
  ["one of several writers", decidesBetweenWriters],
];
