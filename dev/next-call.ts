/** The values of a call that the reader can repeat. */
export interface NextCall {
  readonly caUrl: string;
  readonly issuer: string;
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly token: string;
  readonly csrPem: string;
}

const rpc = "istio.v1.auth.IstioCertificateService/CreateCertificate";

/** Commands for another shell, ready to paste. */
export function nextCallText(call: NextCall): string {
  const tokenUrl = `${call.issuer}/token?namespace=${call.namespace}&serviceaccount=${call.serviceAccount}`;
  const csr = JSON.stringify(call.csrPem).slice(1, -1);
  return `\
This command repeats the call from another shell; its token is valid for 12 hours:

${curl(`${call.caUrl}/${rpc}`, call.token, csr)}

These commands take a fresh token of any namespace and ServiceAccount:

export CA=${call.caUrl}
export TOKEN="$(curl -sS '${tokenUrl}')"
export CSR='${csr}'
${curl(`$CA/${rpc}`, "$TOKEN", `'"$CSR"'`)}

The trust bundle:                     curl -sS ${call.caUrl}/bundle.pem
The development cluster's endpoints:  curl -sS ${call.issuer}
`;
}

function curl(url: string, token: string, csr: string): string {
  const body = `'{"csr":"${csr}","validityDuration":"86400","metadata":{"CertSigner":""}}'`;
  return `curl -sS "${url}" -H 'content-type: application/json' -H "authorization: Bearer ${token}" -H 'clusterid: Kubernetes' -d ${body}`;
}
