import { csrPem } from "../../../testkit/pki/csr.ts";
import { requestInfo, signedRequest, workloadKeys } from "../../corpus/requests.ts";
import { oneOf } from "../../mutation/choice.ts";
import { mutateText } from "../../mutation/text.ts";
import type { Target } from "../target.ts";
import { judgeCsr } from "./csr-verdict.ts";

const intact = workloadKeys.flatMap((key) => {
  const request = signedRequest(key, requestInfo(key.spki));
  return [csrPem(request), csrPem(request, "NEW CERTIFICATE REQUEST")];
});

/** The PEM of a CSR. */
export const csrText: Target = {
  generate: (random) => Buffer.from(mutateText(random, oneOf(random, intact))),
  judge: (text) => judgeCsr(text.toString()),
};
