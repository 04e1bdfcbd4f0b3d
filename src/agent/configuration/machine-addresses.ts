import { networkInterfaces } from "node:os";
import type { Variables } from "./environment.ts";

/** The address that was given, and those of the machine that others can reach. */
export function addressesOf({ INSTANCE_IP: given }: Variables): readonly string[] {
  const found = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const reachable = found
    .filter(({ internal, address }) => !internal && !/^fe80:|^169\.254\./i.test(address))
    .map(({ address }) => address);
  const all = new Set([...(given === loopback ? [] : [given]), ...reachable]);
  return all.size > 0 ? [...all] : [loopback];
}

/** The default of `INSTANCE_IP`, which no peer can reach. */
const loopback = "127.0.0.1";
