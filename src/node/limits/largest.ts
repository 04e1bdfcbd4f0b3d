/** The first of those with the greatest size, among such ones. */
export function largest<Each>(
  all: Iterable<Each>,
  sizeOf: (each: Each) => number,
  isSuch: (each: Each) => boolean = () => true,
): Each | undefined {
  let [found, size]: [Each | undefined, number] = [undefined, Number.NEGATIVE_INFINITY];
  for (const each of all) {
    const own = sizeOf(each);
    if (own > size && isSuch(each)) [found, size] = [each, own];
  }
  return found;
}

/** The first such one. */
export function first<Each>(
  all: Iterable<Each>,
  isSuch: (each: Each) => boolean,
): Each | undefined {
  for (const each of all) if (isSuch(each)) return each;
  return undefined;
}
