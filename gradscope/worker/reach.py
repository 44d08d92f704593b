"""Is the Hugging Face hub there? Asked once, briefly: the hub's own client retries for minutes where nobody answers."""

from gradscope.errors import ExitCode, GradscopeError

PROBE_SECONDS = 5.0

LOCAL = "give a local folder instead, or download it where there is a network"


def require_hub(what: str, remedy: str = LOCAL) -> None:
    """Raise a `GradscopeError` where the hub is switched off (`HF_HUB_OFFLINE`) or does not answer within 5 s.

    Args:
        what: What is wanted from it, for the message: `model 'gpt2' is not in the cache`.
        remedy: What to do about it.
    """
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        raise GradscopeError(
            f"{what}, and HF_HUB_OFFLINE is set",
            f"unset HF_HUB_OFFLINE, or {remedy}",
            exit_code=ExitCode.ENVIRONMENT,
        )
    try:
        get_session().head(constants.ENDPOINT, timeout=PROBE_SECONDS)
    except Exception as error:  # the HTTP client, and so its exceptions, differ between versions of huggingface_hub
        raise GradscopeError(
            f"{what}, and {constants.ENDPOINT} cannot be reached: {error}",
            remedy,
            exit_code=ExitCode.ENVIRONMENT,
        ) from error
