"""Two nodes prove to each other that they know the cluster's secret."""

import copy
import pickle

import pytest

from millpond.base.errors import InvalidConfig, RemoteProtocolError, WrongCluster
from millpond.peer.proof import (
    NONCE_BYTES,
    Answering,
    Asking,
    ClusterSecret,
    Destination,
    Place,
    ProofFailed,
    WrongDestination,
    address_text,
)

SECRET = ClusterSecret("known to all nodes")
OTHER = ClusterSecret("known to no other node")


HERE = "10.0.0.2:9092"
ELSEWHERE = "10.0.0.9:9092"
TO_TWO = Destination(2, "two:9092", HERE)
AT_TWO = Place(HERE)


def asking(
    secret: ClusterSecret = SECRET,
    cluster: str = "c",
    nonce: int = 1,
    to: Destination = TO_TWO,
) -> Asking:
    return Asking(secret, 1, cluster, bytes([nonce]) * NONCE_BYTES, to=to)


def answering(
    secret: ClusterSecret = SECRET,
    cluster: str = "c",
    nonce: int = 2,
    at: Place = AT_TWO,
    node: int = 2,
) -> Answering:
    return Answering(secret, node, cluster, bytes([nonce]) * NONCE_BYTES, at=at)


def exchange(one: Asking, two: Answering) -> None:
    """All rounds."""
    one.check(two.answer(one.second(two.answer(one.first()))))
    assert two.is_proved


def test_both_sides_prove_it() -> None:
    one, two = asking(), answering()
    answer = two.answer(one.second(two.answer(one.first())))
    one.check(answer)
    assert two.is_proved
    assert two.is_over
    assert two.asker == 1


def test_an_asker_with_another_secret_learns_nothing() -> None:
    one, two = asking(OTHER), answering()
    proof = one.second(two.answer(one.first()))
    with pytest.raises(ProofFailed, match="its cluster secret is not this node's"):
        two.answer(proof)
    assert not two.is_proved
    assert two.is_over


def test_an_answerer_with_another_secret_is_found_out() -> None:
    one, two = asking(), answering(OTHER)
    one.second(two.answer(one.first()))
    for made_up in (b"", bytes(32), OTHER.prove(b"answerer")):
        with pytest.raises(ProofFailed):
            one.check(made_up)


def test_a_proof_cannot_be_sent_back_nor_used_again() -> None:
    one, two = asking(), answering()
    proof = one.second(two.answer(one.first()))
    with pytest.raises(ProofFailed):
        one.check(proof)
    two.answer(proof)
    # The same words to another connection, which has another nonce.
    again = answering(nonce=3)
    again.answer(one.first())
    with pytest.raises(ProofFailed):
        again.answer(proof)
    # And from a node with another number.
    third = answering(node=3)
    third.answer(one.first())
    with pytest.raises(ProofFailed):
        third.answer(proof)


def test_a_node_of_another_cluster_is_told_so() -> None:
    with pytest.raises(WrongCluster, match="belongs to cluster c, not to d"):
        answering().answer(asking(cluster="d").first())


# --- where a proof goes ----------------------------------------------------------------------------


def test_a_proof_that_was_sent_to_another_address_is_refused() -> None:
    """A client that nodes connect to passes their words on."""
    for to in (
        Destination(2, ELSEWHERE, ELSEWHERE),
        Destination(None, ELSEWHERE, ELSEWHERE),
        Destination(None, "two:9093", ELSEWHERE),
        Destination(2, "", ""),
    ):
        for at in (Place(HERE, own={"two:9092"}, shared={"any:9092"}), Place("")):
            one, two = asking(to=to), answering(at=at)
            proof = one.second(two.answer(one.first()))
            with pytest.raises(WrongDestination, match=r"its proof is for .* node 2 is at"):
                two.answer(proof)
            assert not two.is_proved
            assert two.is_over


def test_no_proof_is_given_to_another_node_than_the_one_that_is_wanted() -> None:
    one, two = asking(to=Destination(3, "three:9092", HERE)), answering()
    challenge = two.answer(one.first())
    with pytest.raises(WrongDestination, match="node 2 answers at three:9092, where node 3 should"):
        one.second(challenge)


def test_a_relay_cannot_change_where_a_proof_goes() -> None:
    there = Destination(2, ELSEWHERE, ELSEWHERE)
    for change in (Destination(2, HERE, HERE), Destination(None, ELSEWHERE, HERE)):
        one, two = asking(to=there), answering()
        challenge = two.answer(asking(to=change).first())
        with pytest.raises(ProofFailed, match="its cluster secret is not this node's"):
            two.answer(one.second(challenge))
        assert not two.is_proved


def test_a_proof_for_another_node_is_refused_by_the_one_that_gets_it() -> None:
    with pytest.raises(WrongDestination, match="is for node 3, and this is node 2"):
        Place(HERE).check(2, Destination(3, HERE, HERE))


def test_a_node_behind_a_proxy_is_found_by_the_address_in_its_settings() -> None:
    behind = Place(HERE, own={"proxy:19092"}, shared={"any:9092"})
    exchange(asking(to=Destination(2, "proxy:19092", ELSEWHERE)), answering(at=behind))
    # Who looks for the quorum at an address that several nodes share asks for no number.
    exchange(asking(to=Destination(None, "any:9092", ELSEWHERE)), answering(at=behind))
    one, two = asking(to=Destination(2, "any:9092", ELSEWHERE)), answering(at=behind)
    proof = one.second(two.answer(one.first()))
    with pytest.raises(WrongDestination, match=r"advertised\.listeners"):
        two.answer(proof)


def test_an_alias_of_the_node_is_as_good_as_its_name() -> None:
    exchange(asking(to=Destination(None, "alias.example:9092", HERE)), answering())


def test_addresses_are_written_in_one_way() -> None:
    assert address_text("::ffff:10.0.0.2", 9092) == HERE
    assert address_text("0:0::1", 1) == address_text("::1", 1)
    assert address_text("fe80::1%eth0", 1) == address_text("FE80::1", 1)
    assert address_text("Two.Example.", 9092) == "two.example:9092"


@pytest.mark.parametrize(
    "data",
    [b"", b"\x01", bytes(39), bytes(47), b"\x02" + bytes(46), bytes(100), b"\x01" + bytes(47)],
)
def test_what_is_no_beginning_of_a_proof_is_refused(data: bytes) -> None:
    two = answering()
    with pytest.raises(RemoteProtocolError):
        two.answer(data)
    assert two.is_over


@pytest.mark.parametrize("data", [b"", bytes(36), b"\x02" + bytes(36), bytes(38)])
def test_what_is_no_challenge_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        asking().second(data)


def test_a_secret_does_not_show_itself() -> None:
    assert "known" not in repr(SECRET)
    assert "known" not in f"{SECRET}"
    with pytest.raises(TypeError):
        pickle.dumps(SECRET)
    with pytest.raises(TypeError):
        copy.copy(SECRET)


@pytest.mark.parametrize("text", ["", "  short  ", "x" * 1025])
def test_a_secret_is_neither_short_nor_endless(text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        ClusterSecret(text)
    assert text.strip() not in str(caught.value) or not text.strip()


def test_spaces_around_a_secret_do_not_count() -> None:
    spaced = ClusterSecret(" known to all nodes\n")
    assert spaced.prove(b"x") == SECRET.prove(b"x")
