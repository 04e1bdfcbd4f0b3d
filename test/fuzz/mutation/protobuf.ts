import type { Random } from "../../simulation/random.ts";
import type { Octets } from "../../testkit/der/mutation.ts";
import { indexBelow, oneOf, randomOctets, several } from "./choice.ts";
import { mutateOctets } from "./octets.ts";

/** A field on the wire, its tag not yet encoded, its content with its length or as a varint. */
interface Field {
  readonly number: number;
  readonly wireType: number;
  readonly content: Octets;
}

/** A base-128 varint, which may have more octets than it needs. */
function varint(value: bigint, padding = 0): Octets {
  const octets: number[] = [];
  for (let rest = value; ; rest >>= 7n) {
    octets.push(Number(rest & 0x7fn) | 0x80);
    if (rest < 0x80n) break;
  }
  octets.push(...Array.from({ length: padding }, () => 0x80));
  octets[octets.length - 1] = (octets.at(-1) ?? 0) & 0x7f;
  return Buffer.from(octets);
}

/** A field with a length: text, octets or a message. */
export const lengthField = (number: number, inside: Uint8Array): Field => ({
  number,
  wireType: 2,
  content: Buffer.concat([varint(BigInt(inside.length)), inside]),
});

/** A field that is a number. */
export const varintField = (number: number, value: bigint): Field => ({
  number,
  wireType: 0,
  content: varint(value),
});

/** The octets of a message. */
export const message = (fields: readonly Field[]): Octets =>
  Buffer.concat(
    fields.flatMap(({ number, wireType, content }) => [
      varint((BigInt(number) << 3n) | BigInt(wireType)),
      content,
    ]),
  );

const numbers = [0n, 1n, 60n, 3600n, 86_400n, 7_776_001n, 1n << 31n, 1n << 63n, (1n << 64n) - 1n];

const changes: readonly ((random: Random, fields: readonly Field[]) => readonly Field[])[] = [
  (random, fields) => fields.toSpliced(indexBelow(random, fields.length), 1),
  (random, fields) => [...fields, oneOf(random, fields)],
  (random, fields) => [oneOf(random, fields), ...fields],
  (random, fields) => [...fields, varintField(3, oneOf(random, numbers))],
  (random, fields) => [
    ...fields,
    lengthField(oneOf(random, [1, 4, 5, 15, 1000]), randomOctets(random, indexBelow(random, 20))),
  ],
  (random, fields) => [...fields, struct(random, indexBelow(random, 150))],
  (random, fields) =>
    changeOne(random, fields, (field) => ({ ...field, wireType: indexBelow(random, 8) })),
  (random, fields) =>
    changeOne(random, fields, (field) => ({
      ...field,
      number: oneOf(random, [0, 1, 2, 3, 4, 16, 536_870_911]),
    })),
  (random, fields) =>
    changeOne(random, fields, (field) => ({
      ...field,
      content: mutateOctets(random, field.content),
    })),
  (random, fields) => [
    ...fields,
    { number: 3, wireType: 0, content: varint(oneOf(random, numbers), indexBelow(random, 12)) },
  ],
];

/** The octets of a message with some of its fields changed. */
export function mutateMessage(random: Random, fields: readonly Field[]): Octets {
  const changed = message(
    several(random, 3, fields, (some) =>
      some.length > 0 ? oneOf(random, changes)(random, some) : some,
    ),
  );
  return random.chance(0.3) ? mutateOctets(random, changed) : changed;
}

function changeOne(
  random: Random,
  fields: readonly Field[],
  change: (field: Field) => Field,
): readonly Field[] {
  const at = indexBelow(random, fields.length);
  return fields.map((field, i) => (i === at ? change(field) : field));
}

const memberNames = ["ImpersonatedIdentity", "CertSigner", "__proto__", "", "x"];

/** `metadata`, a google.protobuf.Struct whose member holds further Structs to a depth. */
function struct(random: Random, depth: number): Field {
  const name = Buffer.from(oneOf(random, memberNames));
  const text = lengthField(
    3,
    Buffer.from(oneOf(random, ["", "spiffe://cluster.local/ns/a/sa/b", "\u0000", "x"])),
  );
  let value = message([text]);
  for (let i = 0; i < depth; i++) {
    value = message([lengthField(5, message([entry(name, value)]))]);
  }
  return lengthField(4, message([entry(name, value)]));
}

const entry = (name: Octets, value: Octets): Field =>
  lengthField(1, message([lengthField(1, name), lengthField(2, value)]));
