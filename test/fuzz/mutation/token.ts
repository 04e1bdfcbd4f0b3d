import type { Random } from "../../simulation/random.ts";
import { signedToken, tokenSigners } from "../corpus/tokens.ts";
import { oneOf } from "./choice.ts";
import { mutateJson } from "./json.ts";
import { mutateText } from "./text.ts";

/** A token of these claims, mostly with something changed before it was signed, and sometimes after. */
export function hostileToken(random: Random, claims: object, types: readonly string[]): string {
  const signer = oneOf(random, tokenSigners);
  const header = random.chance(0.3)
    ? mutateJson(random, { ...signer.header, typ: oneOf(random, types) })
    : JSON.stringify(signer.header);
  const payload = random.chance(0.8) ? mutateJson(random, claims) : JSON.stringify(claims);
  const signing = random.chance(0.05) ? oneOf(random, tokenSigners) : signer;
  const compact = signedToken(signing, header, payload);
  return random.chance(0.125) ? mutateText(random, compact) : compact;
}
