import { describeCertificateService } from "../../contract/certificate-service.ts";
import type { ReviewingService } from "../../contract/service-under-test.ts";
import { serviceOf, startCa } from "../../testkit/ca/running-ca.ts";
import { createTokenKey } from "../../testkit/callers/tokens.ts";
import { serveReviewingApi } from "../../testkit/kubernetes/reviewing-server.ts";

const api = serveReviewingApi();

async function startInProcess(): Promise<ReviewingService> {
  const key = await createTokenKey("ES256", "k1");
  const ca = await startCa(api.values(key), { hasNoNamesake: true });
  await ca.found();
  return { ...serviceOf(ca, key), questions: async () => api.questions() };
}

describeCertificateService(startInProcess);
