import { open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { UseToken } from "../../ca/issuance/single-use.ts";
import { CaError } from "../../foundation/errors.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { errorCode } from "../../program/files/small-file.ts";
import { StoreOwner } from "./store-owner.ts";

/** The most tokens that are remembered: each is an empty file, and its name takes 90 octets. */
const maximumTokens = 100_000;

const pruneEverySeconds = 60;

/**
 * Remembers used tokens in a folder of the store, as empty files whose names are the second in which the token ends, and
 * its digest. The file system decides who of several processes was first.
 */
export function usedTokensIn(storeDirectory: string, maximum = maximumTokens): UseToken {
  const folder = join(storeDirectory, "used-tokens");
  let nextPrune = new Date(0);
  let pruning: Promise<void> | undefined;
  let known = 0;
  const prune = async (now: Date): Promise<void> => {
    await StoreOwner.makeFolder(folder, await StoreOwner.of(folder));
    const names = await readdir(folder);
    const over = names.filter((name) => !(Number(name.split("-", 1)[0]) * 1000 > now.getTime()));
    for (const name of over) await rm(join(folder, name), { force: true });
    known = names.length - over.length;
  };
  return async ({ digest, until }, now) => {
    if (now >= nextPrune) {
      nextPrune = addSeconds(now, pruneEverySeconds);
      pruning = prune(now).catch((fault: unknown) => {
        nextPrune = new Date(0);
        throw fault;
      });
    }
    await pruning;
    if (known >= maximum) {
      throw new CaError({ reason: "too-many-waiting" }, "too many used tokens are remembered");
    }
    try {
      const name = `${Math.ceil(until.getTime() / 1000)}-${digest}`;
      await (await open(join(folder, name), "wx", 0o600)).close();
      known++;
      return true;
    } catch (error) {
      if (errorCode(error) === "EEXIST") return false;
      throw error;
    }
  };
}
