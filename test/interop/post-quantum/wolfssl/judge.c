/* Verifies as wolfSSL does: `leaf ROOTS LEAF`, or `crl ROOTS CRL`, each a file of PEM blocks. */
#include <wolfssl/options.h>
#include <wolfssl/ssl.h>

#include <stdio.h>
#include <string.h>

static int judge(WOLFSSL_CERT_MANAGER* manager, const char* kind, const char* roots, const char* shown)
{
    int code = wolfSSL_CertManagerLoadCA(manager, roots, NULL);
    if (code != WOLFSSL_SUCCESS) return code;
    if (strcmp(kind, "crl") != 0) return wolfSSL_CertManagerVerify(manager, shown, WOLFSSL_FILETYPE_PEM);
    code = wolfSSL_CertManagerEnableCRL(manager, WOLFSSL_CRL_CHECKALL);
    if (code != WOLFSSL_SUCCESS) return code;
    return wolfSSL_CertManagerLoadCRLFile(manager, shown, WOLFSSL_FILETYPE_PEM);
}

int main(int count, char** words)
{
    char why[80];
    int code;
    WOLFSSL_CERT_MANAGER* manager;
    if (count != 4 || wolfSSL_Init() != WOLFSSL_SUCCESS) return 2;
    manager = wolfSSL_CertManagerNew();
    code = judge(manager, words[1], words[2], words[3]);
    wolfSSL_CertManagerFree(manager);
    if (code == WOLFSSL_SUCCESS) return 0;
    printf("%d: %s\n", code, wolfSSL_ERR_error_string((unsigned long)code, why));
    return 1;
}
