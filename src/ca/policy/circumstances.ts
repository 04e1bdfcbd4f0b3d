import * as z from "zod/mini";
import { instant } from "../../foundation/text.ts";
import { keyTypeNames, products, proofs } from "./rule.ts";

const known = z.optional(z.string());

/**
 * What is known of a request, in the words of the rules that are held against it, and what an audit line says of it.
 * The default Worker needs the type alone, so its form has a file of its own.
 */
export const circumstances = z.object({
  cluster: known,
  issuer: known,
  namespace: known,
  account: known,
  node: known,
  caller: z.object({ namespace: known, account: known }),
  /**
   * What nobody tells, and what is absent therefore: the issuer behind a certificate of istiod, the account for
   * which an old signer asks, the node behind a certificate or a name that a gateway forwards.
   */
  hidden: z.optional(z.readonly(z.array(z.enum(["issuer", "account", "node"])))),
  /** Of a certificate: when a token was last accepted for it. */
  provedAt: z.optional(instant),
  proof: z.enum(proofs),
  product: z.enum(products),
  signer: known,
  /** Seconds; 0 where the caller asks for none, absent where an old entry of the log does not say. */
  requested: z.optional(z.number()),
  /** Absent of a token, which has no key of its caller. */
  key_type: z.optional(z.enum(keyTypeNames)),
  /** Of a token. */
  audiences: z.optional(z.readonly(z.array(z.string()))),
});
export type Circumstances = Readonly<z.output<typeof circumstances>>;
export type Hidden = NonNullable<Circumstances["hidden"]>[number];
