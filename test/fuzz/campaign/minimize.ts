/**
 * Shortens a failing input for as long as it still fails (delta debugging, Zeller and Hildebrandt 2002). It
 * leaves out halves, then quarters, down to single octets.
 *
 * @param fails Whether an input fails in the same way. It is asked at most `budget` times.
 */
export async function minimize(
  input: Buffer<ArrayBuffer>,
  fails: (input: Buffer<ArrayBuffer>) => Promise<boolean>,
  budget = 2000,
): Promise<Buffer<ArrayBuffer>> {
  let smallest = input;
  let asked = 0;
  for (let size = Math.ceil(input.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < smallest.length && asked < budget; asked++) {
      const without = Buffer.concat([smallest.subarray(0, at), smallest.subarray(at + size)]);
      if (await fails(without)) smallest = without;
      else at += size;
    }
  }
  return smallest;
}
