import { open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { UseToken } from "../../ca/issuance/issue-certificate.ts";
import { CaError } from "../../foundation/errors.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { errorCode } from "../../program/files/small-file.ts";
import { StoreOwner } from "./store-owner.ts";

/** The most tokens that are remembered: each is an empty file, and its name takes 90 octets. */
const maximumTokens = 100_000;

const pruneEverySeconds = 60;

/** The end of the name of a file that records up to which second tokens were forgotten. */
const forgottenMark = "-forgotten";

const secondOf = (name: string): number => Number(name.split("-", 1)[0]);

/**
 * Remembers used tokens in a folder of the store, as empty files whose names are the second in which the token ends,
 * and its digest. The file system decides which of several processes was first. Expired tokens are forgotten. If the
 * clock is set back, no token that ends before the last forgotten one counts as new. When full, it throws a CaError.
 */
export function usedTokensIn(storeDirectory: string, maximum = maximumTokens): UseToken {
  const folder = join(storeDirectory, "used-tokens");
  let nextPrune = new Date(0);
  let pruning: Promise<void> | undefined;
  let known = 0;
  let forgotten = 0;
  const prune = async (now: Date): Promise<void> => {
    await StoreOwner.makeFolder(folder, await StoreOwner.of(folder));
    const names = await readdir(folder);
    const over = names.filter((name) => !(secondOf(name) * 1000 > now.getTime()));
    const marks = names.filter((name) => name.endsWith(forgottenMark));
    for (const name of [...over, ...marks]) forgotten = Math.max(forgotten, secondOf(name) || 0);
    const mark = `${forgotten}${forgottenMark}`;
    if (over.length > 0) await (await open(join(folder, mark), "a", 0o600)).close();
    for (const name of over) if (name !== mark) await rm(join(folder, name), { force: true });
    known = names.length - over.length;
  };
  return async ({ digest, until }, now) => {
    // Also after the clock was set back: before that, another process may have forgotten tokens that end later.
    if (now >= nextPrune || now < addSeconds(nextPrune, -pruneEverySeconds)) {
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
    const second = Math.ceil(until.getTime() / 1000);
    if (second <= forgotten) return false;
    try {
      const name = `${second}-${digest}`;
      await (await open(join(folder, name), "wx", 0o600)).close();
      known++;
      return true;
    } catch (error) {
      if (errorCode(error) === "EEXIST") return false;
      throw error;
    }
  };
}
