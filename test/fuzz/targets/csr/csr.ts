import type { Random } from "../../../simulation/random.ts";
import { changeAt, type Octets } from "../../../testkit/der/mutation.ts";
import { csrPem, signatureIdentifier } from "../../../testkit/pki/csr.ts";
import { requestInfo, signedRequest, workloadKeys } from "../../corpus/requests.ts";
import { oneOf } from "../../mutation/choice.ts";
import { mutateDer } from "../../mutation/der.ts";
import type { Target } from "../target.ts";
import { judgeCsr } from "./csr-verdict.ts";

const intact = workloadKeys.map((key) => signedRequest(key, requestInfo(key.spki)));

/** The DER of a CSR: changed after its sender signed it, or before. */
export const csr: Target = {
  generate: (random) =>
    random.chance(0.4) ? mutateDer(random, oneOf(random, intact)) : resigned(random),
  judge: (der) => judgeCsr(csrPem(der)),
};

/** A CSR that only its sender can make: its signature is right, and any other part may be wrong. */
function resigned(random: Random): Octets {
  const key = oneOf(random, workloadKeys);
  const spki = random.chance(0.1) ? oneOf(random, workloadKeys).spki : key.spki;
  const info = requestInfo(spki);
  const changed = random.chance(0.5)
    ? mutateDer(random, info)
    : changeAt(info, [oneOf(random, [1, 2, 2, 3])], (element) => mutateDer(random, element));
  if (random.chance(0.9)) return signedRequest(key, changed);
  return signedRequest(key, changed, oneOf(random, Object.values(signatureIdentifier)));
}
