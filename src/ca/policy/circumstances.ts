import * as z from "zod/mini";
import { instant } from "../../foundation/text.ts";
import { keyTypeNames, products, proofs } from "./rule.ts";

const known = z.optional(z.string());

/** Parses circumstances. */
export const Circumstances = {
  /**
   * The attributes of a request that rules match, and that an audit line records. The schema has a file of its own,
   * because the default Worker needs only its type.
   */
  schema: z.object({
    cluster: known,
    issuer: known,
    namespace: known,
    account: known,
    node: known,
    caller: z.object({ namespace: known, account: known }),
    /**
     * The attributes that a request does not show: the issuer behind a certificate of istiod, the account for which an
     * old signer asks, the node and the claims behind a certificate or a name that a gateway forwards.
     */
    hidden: z.optional(z.readonly(z.array(z.enum(["issuer", "account", "node", "claims"])))),
    /** For a caller with a certificate, when a token was last accepted for it. */
    provedAt: z.optional(instant),
    proof: z.enum(proofs),
    product: z.enum(products),
    signer: known,
    /**
     * The requested lifetime in seconds: 0 if the caller requests none, absent if an old entry of the log does not
     * record it.
     */
    requested: z.optional(z.number()),
    /** The type of the subject key; absent for a token, which has none. */
    key_type: z.optional(z.enum(keyTypeNames)),
    /** The recorded claims of a token that is not of a ServiceAccount. */
    claims: z.optional(
      z.record(z.string(), z.union([z.string(), z.readonly(z.array(z.string()))])),
    ),
    /** The audiences of a requested token. */
    audiences: z.optional(z.readonly(z.array(z.string()))),
  }),
};

/** The circumstances of a request as its log entry records them, parsed. */
export type Circumstances = Readonly<z.output<typeof Circumstances.schema>>;

/** An attribute that a request does not show. */
export type Hidden = NonNullable<Circumstances["hidden"]>[number];
