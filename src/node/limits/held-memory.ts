/**
 * The octets that this process holds; `undefined` while it cannot tell, because no descriptor is left with which
 * to read them.
 */
export function heldOctets(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}
