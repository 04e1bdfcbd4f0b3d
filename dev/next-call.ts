/** What the next call needs: where to, with which token, for which CSR. */
export interface NextCall {
  readonly caUrl: string;
  readonly issuer: string;
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly token: string;
  readonly csrPem: string;
}

const rpc = "istio.v1.auth.IstioCertificateService/CreateCertificate";

/** How to go on from another shell, in commands that work as they are pasted. */
export function nextCallText(call: NextCall): string {
  const tokenUrl = `${call.issuer}/token?namespace=${call.namespace}&serviceaccount=${call.serviceAccount}`;
  const csr = JSON.stringify(call.csrPem).slice(1, -1);
  return `\
The same call from another shell, its token (good for 12 hours) and its CSR included:

${curl(`${call.caUrl}/${rpc}`, call.token, csr)}

Or one variable at a time, with a fresh token of any namespace and ServiceAccount:

export CA=${call.caUrl}
export TOKEN="$(curl -sS '${tokenUrl}')"
export CSR='${csr}'
${curl(`$CA/${rpc}`, "$TOKEN", `'"$CSR"'`)}

What its certificates verify under:  curl -sS ${call.caUrl}/bundle.pem
What the development cluster offers: curl -sS ${call.issuer}
`;
}

function curl(url: string, token: string, csr: string): string {
  const body = `'{"csr":"${csr}","validityDuration":"86400","metadata":{"CertSigner":""}}'`;
  return `curl -sS "${url}" -H 'content-type: application/json' -H "authorization: Bearer ${token}" -H 'clusterid: Kubernetes' -d ${body}`;
}
