import type { Random } from "../../simulation/random.ts";
import { flipBit, type Octets } from "../../testkit/der/mutation.ts";
import { indexBelow, oneOf, randomOctets, several } from "./choice.ts";

/** Octets at the borders of lengths, signs and tags. */
const borders = [0x00, 0x01, 0x0a, 0x20, 0x2d, 0x3d, 0x7f, 0x80, 0x81, 0x82, 0x84, 0xfe, 0xff];

type Change = (random: Random, octets: Octets) => Octets;

const changes: readonly Change[] = [
  (random, octets) => flipBit(octets, indexBelow(random, 8 * octets.length)),
  (random, octets) =>
    spliced(octets, indexBelow(random, octets.length), 1, [oneOf(random, borders)]),
  (random, octets) => octets.subarray(0, indexBelow(random, octets.length)),
  (random, octets) => spliced(octets, ...range(random, octets), []),
  (random, octets) => {
    const [at, length] = range(random, octets);
    return spliced(octets, at, 0, octets.subarray(at, at + length));
  },
  (random, octets) => {
    const [at, length] = range(random, octets);
    const other = octets.subarray(...range(random, octets));
    return spliced(octets, at, length, other);
  },
  (random, octets) =>
    spliced(
      octets,
      indexBelow(random, octets.length + 1),
      0,
      randomOctets(random, 1 + indexBelow(random, 6)),
    ),
];

/** Changes octets without regard to what they mean. */
export const mutateOctets = (random: Random, octets: Octets): Octets =>
  several(random, 4, octets, (some) =>
    some.length > 0 ? oneOf(random, changes)(random, some) : some,
  );

/** A place, and a length of mostly a few octets. */
function range(random: Random, octets: Octets): [number, number] {
  const at = indexBelow(random, octets.length);
  return [at, 1 + indexBelow(random, random.chance(0.8) ? 8 : octets.length - at)];
}

function spliced(octets: Octets, at: number, remove: number, insert: ArrayLike<number>): Octets {
  return Buffer.concat([octets.subarray(0, at), Buffer.from(insert), octets.subarray(at + remove)]);
}
