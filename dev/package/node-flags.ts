/**
 * What the executable and the image start Node with: heaps within bounds, and a collection after a flood.
 * Without them V8 takes memory rather than collect garbage.
 */
export const nodeFlags: readonly string[] = [
  "--max-semi-space-size=2",
  "--max-old-space-size=80",
  "--expose-gc",
];
