"""After training, untimed: operations of one update, and whether the strategy's gradient is the gradient."""

from functools import partial

from gradscope.core.events import Audited, FlopsCounted, Note, Stage, StageEntered
from gradscope.errors import GradscopeError
from gradscope.worker.audit import audit_gradient
from gradscope.worker.contract import Strategy
from gradscope.worker.failures import print_traceback
from gradscope.worker.flops import count_flops
from gradscope.worker.gradient import accumulate_gradient
from gradscope.worker.lifeline import Requests
from gradscope.worker.loop import Parts
from gradscope.worker.record import EventLog

AUDIT_ROWS = 2


def examine(parts: Parts, strategy: Strategy, log: EventLog, requests: Requests) -> None:
    """Count operations and audit the gradient, as far as the preset asks for them.

    Gradients and optimizer state are given back first: training is over, and the audit needs the room.

    Raises:
        StopTraining: The run was asked to stop.
    """
    settings = parts.preset.audit
    log.emit(StageEntered, stage=Stage.AUDIT)
    parts.updater.optimizer.zero_grad(set_to_none=True)
    parts.updater.optimizer.state.clear()
    if settings.flops:
        requests.check()
        _count(parts, log)
    if settings.enabled:
        requests.check()
        _audit(parts, strategy, log)


def _count(parts: Parts, log: EventLog) -> None:
    """Record the operations of one evaluation of an update. Micro-batches of one size cost the same."""
    model_flops = executed_flops = 0
    try:
        for rows in sorted(set(parts.rows)):
            window = [parts.stream.sample(rows)]
            counted, executed = count_flops(
                partial(
                    accumulate_gradient,
                    parts.model,
                    parts.model.module,
                    window,
                    device=parts.device,
                    precision=parts.preset.run.precision,
                ),
                parts.recomputation,
            )
            model_flops += counted * parts.rows.count(rows)
            executed_flops += executed * parts.rows.count(rows)
    except Exception as error:  # a model that torch's counter cannot follow still deserves its audit
        print_traceback(error)
        log.emit(Note, code="flops", message=f"operations could not be counted: {type(error).__name__}: {error}")
    else:
        log.emit(FlopsCounted, model_flops=model_flops, executed_flops=executed_flops)
    finally:
        parts.model.module.zero_grad(set_to_none=True)


def _audit(parts: Parts, strategy: Strategy, log: EventLog) -> None:
    """Record the gradient audit; rows that cannot be read are its result, since training is over."""
    try:
        rows = parts.stream.sample(AUDIT_ROWS)
    except GradscopeError as error:
        log.emit(Audited, error=None, bound=None, passed=None, reason=f"its rows cannot be read: {error.message}")
        return
    outcome = audit_gradient(
        parts.model,
        strategy,
        parts.recomputation,
        rows,
        device=parts.device,
        precision=parts.preset.run.precision,
    )
    log.emit(
        Audited,
        error=outcome.error,
        bound=outcome.bound,
        passed=outcome.passed,
        reason=outcome.reason,
        without_gradient=list(outcome.without_gradient),
        no_effect=outcome.no_effect,
    )
