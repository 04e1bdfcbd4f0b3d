"""Watches the Workload API with py-spiffe, and prints one line of JSON for each state it is given."""

import json
import signal
import sys

from spiffe import TrustDomain, WorkloadApiClient


def show(context):
    svid = context.default_svid
    bundle = context.x509_bundle_set.get_bundle_for_trust_domain(svid.spiffe_id.trust_domain)
    roots = list(bundle.x509_authorities)
    foreign = context.x509_bundle_set.get_bundle_for_trust_domain(TrustDomain("other.test"))
    issuer = [root for root in roots if is_issued(svid.leaf, root)]
    line = {
        "spiffeId": str(svid.spiffe_id),
        "serial": format(svid.leaf.serial_number, "x"),
        "roots": len(roots),
        "foreignRoots": len(foreign.x509_authorities) if foreign else 0,
        "verified": len(issuer) == 1,
    }
    print(json.dumps(line), flush=True)


def is_issued(leaf, root):
    try:
        leaf.verify_directly_issued_by(root)
        return True
    except Exception:
        return False


client = WorkloadApiClient()
show(client.fetch_x509_context())
client.stream_x509_contexts(on_success=show, on_error=lambda error: print(error, file=sys.stderr))
signal.sigwait({signal.SIGTERM})
client.close()
