/** The one that comes before all others, among such ones: of several equal ones the first. */
export function foremost<Each>(
  all: Iterable<Each>,
  isBefore: (one: Each, other: Each) => boolean,
  isSuch: (each: Each) => boolean = () => true,
): Each | undefined {
  let found: Each | undefined;
  for (const each of all)
    if ((found === undefined || isBefore(each, found)) && isSuch(each)) found = each;
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
