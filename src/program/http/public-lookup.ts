import { type LookupAddress, lookup } from "node:dns";
import type { LookupFunction } from "node:net";
import { isPublicAddress } from "../../foundation/http/public-address.ts";

/** Resolves a name to all of its addresses. */
export type Resolve = (
  hostname: string,
  options: { readonly all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * A lookup that knows no private addresses. The socket connects to nothing but what it returns, so a
 * name that changes between two lookups gains nothing.
 */
export function createPublicLookup(resolve: Resolve = lookup): LookupFunction {
  return (hostname, options, callback) =>
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const usable = addresses?.filter(({ address }) => isPublicAddress(address)) ?? [];
      const [first] = usable;
      if (error || !first) callback(error ?? createPrivateAddressError(), []);
      else if (options.all) callback(null, usable);
      else callback(null, first.address, first.family);
    });
}

/** The code stands in the log: a public issuer's key URL leads to a private address. */
export const createPrivateAddressError = (): NodeJS.ErrnoException =>
  Object.assign(new Error("the address is private"), { code: "PRIVATE_ADDRESS" });
