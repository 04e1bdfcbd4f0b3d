import type { StoredRecord } from "../../custody/authority-store.ts";
import type { AuthorityRequest } from "../../custody/record-kinds.ts";
import { KeyedStatement } from "../../custody/statement.ts";
import { IntermediateRequest } from "../../pki/authority/new-authority.ts";
import { wholeSeconds } from "../../pki/x509/validity.ts";
import { Mint } from "../mint.ts";

/** Requests for intermediates that an operator has another CA sign. */
export const RequestedIntermediate = {
  /** Makes a key, seals it, and stores it with its CSR. The key is nowhere else. */
  async request(mint: Mint, now: Date): Promise<Pick<AuthorityRequest, "id" | "csr">> {
    const { extractablePrivateKey, ...request } = await IntermediateRequest.create(
      mint.trustDomain,
      mint.authorityKey,
    );
    const requested = { ...request, requestedAt: wholeSeconds(now) };
    await Mint.storeRecord(
      mint,
      await KeyedStatement.seal("request", requested, extractablePrivateKey, mint),
    );
    mint.log.operation({
      event: "intermediate-requested",
      level: "info",
      detail: "a request for an intermediate is in the store, with its key sealed",
      authority: request.id,
    });
    return request;
  },

  /**
   * Deletes a request with its key: no certificate for it can be installed any more. The caller has found the request:
   * an unknown id deletes nothing, and is logged all the same.
   */
  async withdraw(mint: Mint, id: string): Promise<void> {
    await mint.store.delete({ kind: "request", id });
    mint.log.operation({
      event: "request-withdrawn",
      level: "info",
      detail: "a request for an intermediate was deleted, with its key",
      authority: id,
    });
  },

  /** Opens the extractable key of a request, for the record of its authority. @throws RecordError if it does not open; Error if there is none. */
  async keyOf(mint: Mint, { id }: Pick<AuthorityRequest, "id">): Promise<CryptoKey> {
    const stored = await mint.store.load();
    const record = stored.find(
      (each): each is StoredRecord => each.kind === "request" && each.id === id,
    );
    if (!record) throw new Error("an opened request that the store does not hold");
    return (await KeyedStatement.open("request", record, mint)).privateKey;
  },
};
