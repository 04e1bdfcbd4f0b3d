import * as z from "zod/mini";
import { instant } from "../../foundation/text.ts";
import { keyTypeNames, products, proofs } from "./rule.ts";

const known = z.optional(z.string());

/** What is known of a request when its policy is asked, and what an audit line says of it. */
export const circumstances = z.object({
  ...{ cluster: known, issuer: known, namespace: known, account: known, node: known },
  ...{ callerNamespace: known, callerAccount: known, signer: known },
  /**
   * Where a credential shows no node: when a token was last accepted for it, or that nothing shows the
   * node at all.
   */
  nodeHidden: z.optional(z.union([z.literal("always"), instant])),
  proof: z.enum(proofs),
  product: z.enum(products),
  /** 0 where the caller asks for none; absent where an old entry of the log does not say. */
  requestedSeconds: z.optional(z.number()),
  /** Absent of a token, which has no key of its caller. */
  keyType: z.optional(z.enum(keyTypeNames)),
  /** Of a token. */
  audiences: z.optional(z.readonly(z.array(z.string()))),
});
export type Circumstances = Readonly<z.output<typeof circumstances>>;
